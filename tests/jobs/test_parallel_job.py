"""A job that says how its ranks share a model, from its job file to the ranks that do so."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from cut_model import PARTITION
from digits_example import Example

from launcher.shared import PartitionFile

JOB = """\
entry_point: train.py
source_dir: .
instance_type: ml.g4dn.xlarge
instance_count: 2
distribution:
  model_parallel: {partitions: 2, microbatches: 8, starts: [blocks.4], precision: bf16}
"""
SCRIPT = """\
from launcher import parallel

world = parallel.init(global_batch=32)
print(
    f"stage={parallel.pp_rank()} of {parallel.pp_size()} replica={parallel.dp_rank()}"
    f" microbatch={world.degrees.microbatch} {world.job.starts} {world.job.precision}"
)
parallel.leave()
"""
FILE_JOB = """\
entry_point: train.py
source_dir: .
instance_type: ml.g4dn.xlarge
instance_count: 1
distribution: {model_parallel: {partition_file: ../cuts.json, processes_per_host: 2}}
"""
#: No profiler is there, and the model is that of the file.
FILE_SCRIPT = """\
import sys

for absent in ("profiling", "partitioning"):
    sys.modules[f"launcher.parallel.{absent}"] = None

import json, os
from pathlib import Path
import torch
from torch import nn
from launcher import parallel
from launcher.parallel.pipeline import Pipeline

told = json.loads(os.environ["LAUNCHER_PARALLEL"])
held = Path(told["partition_file"]).read_text()
print(f"{told['starts']} {told['microbatches']} file={held!r}")
world = parallel.init(global_batch=8)
model = nn.Sequential(nn.Linear(2, 3, bias=False), nn.ReLU(), nn.Linear(3, 1, bias=False))
pipeline = Pipeline(model, world, example={"input": torch.ones(4, 2)}, loss=nn.functional.mse_loss)
pipeline.step(torch.ones(8, 2), target=torch.ones(8, 1))
print(f"stage={parallel.pp_rank()} has {list(pipeline.module.state_dict())}")
parallel.leave()
"""
STARTS = 'partitions: 2, microbatches: 2, starts: ["1"]'
TASK_JOB = """\
task: task:make
source_dir: .
instance_type: ml.g4dn.xlarge
instance_count: 2
distribution: {model_parallel: {STARTS}}
hyperparameters: {width: 3, batch-size: 8}
""".replace("STARTS", STARTS)
TASK = """\
import torch
from torch import nn
from launcher.trainers import Task

def numbers():
    return [(torch.tensor([float(n), 1.0]), torch.tensor([2.0 * n])) for n in range(16)]

def make(width: int, batch_size: int) -> Task:
    return Task(
        model=lambda: nn.Sequential(nn.Linear(2, width), nn.Linear(width, 1)),
        train_data="task:numbers",
        loss=nn.functional.mse_loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.001),
        batch_size=batch_size,
        epochs=1,
    )
"""

#: What makes the file has a profiler; the ranks have none.
WITHOUT_PROFILER = """\
import os, sys
if "RANK" in os.environ:
    assert not any("launcher.parallel.profiling" in name for name in sys.modules)
    sys.modules["launcher.parallel.profiling"] = None
"""


def example_of(tmp_path: Path, **files: str) -> Example:
    """A job of these files, by the names of the scripts; job: the text of job.yaml."""
    pytest.importorskip("torch")
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "job.yaml").write_text(files.pop("job"))
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return Example(folder, tmp_path / "home")


@pytest.mark.long
def test_two_hosts_have_a_stage_each_of_the_model_that_the_job_cuts(tmp_path: Path) -> None:
    run = example_of(tmp_path, job=JOB, train=SCRIPT).run("job.yaml")

    assert run.code == 0, run.talk
    said = "of 2 replica=0 microbatch=4 ('blocks.4',) bf16"
    assert run.lines("stage=.*") == {f"stage=0 {said}", f"stage=1 {said}"}


@pytest.mark.long
def test_ranks_cut_their_model_by_the_file_of_the_job(tmp_path: Path) -> None:
    PARTITION.write(tmp_path / "cuts.json")
    run = example_of(tmp_path, job=FILE_JOB, train=FILE_SCRIPT).run("job.yaml")

    assert run.code == 0, run.talk
    assert run.lines("stage=.*") == {"stage=0 has ['0.weight']", "stage=1 has ['2.weight']"}
    said = "\n".join(sorted(run.lines(r"\['2'\] 2 file=.*")))
    assert said == f"['2'] 2 file={PARTITION.to_json()!r}"


@pytest.mark.slow
def test_a_task_is_trained_without_a_script(tmp_path: Path) -> None:
    run = example_of(tmp_path, job=TASK_JOB, task=TASK).run("job.yaml")
    assert run.code == 0, run.talk
    assert run.weights().keys() == {"0.weight", "0.bias", "1.weight", "1.bias"}


@pytest.mark.slow
def test_a_task_is_cut_by_the_file_that_was_measured_of_it_and_of_no_other(tmp_path: Path) -> None:
    job = TASK_JOB.replace(STARTS, "partition_file: ../cuts.json")
    example = example_of(tmp_path, job=job, task=WITHOUT_PROFILER + TASK)
    _measure(example.folder, tmp_path / "cuts.json")
    run = example.run("job.yaml")
    assert run.code == 0, run.talk
    assert run.weights().keys() == {"0.weight", "0.bias", "1.weight", "1.bias"}

    wider = example.run("job.yaml", "--set", "hyperparameters.width=4")
    assert wider.code == 1
    words = "made for another model: 0.weight is [3, 2] float32 in the file, but [4, 2]"
    assert words in wider.summary["failure_reason"]


@pytest.mark.slow
def test_what_a_job_found_is_the_file_of_the_next(tmp_path: Path) -> None:
    found = "partitions: 2, microbatches: 2, auto_partition: true, optimize: memory"
    example = example_of(tmp_path, job=TASK_JOB.replace(STARTS, found), task=TASK)
    folder = example.folder
    (folder / "next.yaml").write_text(TASK_JOB.replace(STARTS, "partition_file: partition.json"))

    run = example.run("job.yaml")
    assert run.code == 0, run.talk
    model = Path(run.summary["model_artifacts"].removeprefix("file://"))
    with tarfile.open(model.with_name("output.tar.gz")) as archive:
        packed = archive.extractfile("partition.json")
        assert packed is not None
        (folder / "partition.json").write_bytes(packed.read())
    kept = PartitionFile.read(folder / "partition.json")
    assert (kept.objective, kept.partitions, kept.microbatches) == ("memory", 2, 2)

    following = example.run("next.yaml")
    assert following.code == 0, following.talk
    assert not following.lines("partition: for memory.*")


def _measure(folder: Path, output: Path) -> None:
    request = {
        "task": "task:make",
        "source_dir": str(folder),
        "output": str(output),
        "partitions": 2,
        "microbatches": 2,
        "hyperparameters": {"width": 3, "batch_size": 8},
    }
    command = [sys.executable, "-m", "launcher.trainers.partition_task"]
    subprocess.run(command, input=json.dumps(request), text=True, check=True)
