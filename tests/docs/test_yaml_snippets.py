"""The YAML that the docs show: job files are jobs, and parts of them fit into one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml
from snippets import ROOT, Snippet, snippets

from launcher.client.planning import Workload
from launcher.client.sessions import DEFAULT_FIELDS
from launcher.client.spec import JobSpec, read_value
from launcher.errors import SpecError

#: Files beside the jobs, as the pages describe them.
FILES = {
    "train.py": "print('trains')\n",
    "start.py": "print('starts')\n",
    "server.py": "print('serves')\n",
    "pipeline.py": "def train_set(): ...\n",
    "task.py": "def make(): ...\n",
    "my_tracker.py": "def log(record): ...\n",
    "requirements-data.txt": "pillow\n",
    "data/image": "",
}
#: The jobs that parts are read in; a part replaces the fields that it has.
SCRIPT_JOB = """
entry_point: train.py
source_dir: .
instance_type: ml.g4dn.12xlarge
instance_count: 2
"""
#: The workload that a model is read in.
WORKLOAD = """
batch_size: 64
cpu_seconds_per_sample: 0.01
bytes_per_batch: 1000000
gpu_seconds_per_step: {NVIDIA A10G: 0.05}
"""
TASK_JOB = SCRIPT_JOB.replace("entry_point: train.py", "task: task:make")
SNIPPETS = list(snippets("yaml"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    shutil.copytree(ROOT / "examples" / "gpt", tmp_path / "examples" / "gpt")
    shutil.copyfile(ROOT / "tests" / "spec" / "bad" / "partition.json", tmp_path / "partition.json")
    return tmp_path


@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet.name)
def test_a_file_of_the_docs_is_accepted(folder: Path, snippet: Snippet) -> None:
    accept(folder, snippet.text)


def test_a_mistake_in_one_is_found(folder: Path) -> None:
    with pytest.raises(SpecError, match="instance_typ"):
        accept(folder, SCRIPT_JOB.replace("instance_type", "instance_typ"))
    with pytest.raises(SpecError, match="microbatchs"):
        accept(folder, "distribution: {model_parallel: {partitions: 2, microbatchs: 4}}")


def accept(folder: Path, text: str) -> None:
    """Read a job, a part of one or a workload; raises SpecError."""
    fields = read_value(text)  # PyYAML reads `on` as true
    if "cpu_seconds_per_sample" in fields or fields.keys() == {"model"}:
        (folder / "w.yaml").write_text(text if "model" not in fields else f"{WORKLOAD}{text}")
        Workload.from_yaml(folder / "w.yaml")
        return
    if "default_bucket" in fields:  # defaults, of which a job has the other fields
        assert fields.keys() <= DEFAULT_FIELDS.keys()
        fields = {key: value for key, value in fields.items() if "bucket" not in key}
    (folder / "job.yaml").write_text(text if is_whole(fields) else within_job(fields))
    JobSpec.from_yaml(folder / "job.yaml")


def is_whole(fields: dict[str, object]) -> bool:
    has_program = not fields.keys().isdisjoint({"entry_point", "task", "container_entry_point"})
    return has_program and not fields.keys().isdisjoint({"instance_type", "instance_groups"})


def within_job(fields: dict[str, object]) -> str:
    job = yaml.safe_load(TASK_JOB if "model_parallel" in str(fields) else SCRIPT_JOB)
    if "instance_groups" in fields:
        del job["instance_type"], job["instance_count"]
    return yaml.safe_dump(job | fields)
