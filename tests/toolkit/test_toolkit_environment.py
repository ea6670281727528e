"""The toolkit's own Environment() inside each host of a 2+2 job equals what Launcher tells it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from launcher import DataService, InstanceGroup, LocalSession, PyTorch

#: Reads both, in the plain Python of a host, in a rank, or on a data host.
REPORT = """\
import json, os
told = json.loads(os.environ["SM_TRAINING_ENV"])

from sagemaker_training.environment import Environment
found = dict(Environment())
print("FOUND", json.dumps([told, found], default=str), flush=True)
"""
#: Each worker imports it before its first sample.
PIPELINE = (
    REPORT
    + """
class Hosts:
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return os.environ["SM_CURRENT_HOST"]
"""
)
#: Reads on until both data hosts have prepared a batch.
READER = (
    REPORT
    + """
from launcher.data import DataLoader, LoaderOptions
EVERYTHING = LoaderOptions(world_size=1)
seen = set()
while len(seen) < 2:
    seen |= {host for (host,) in DataLoader("pipeline:Hosts", options=EVERYTHING)}
"""
)
#: Differences that are intended, each with its reason.
EXPECTED = {
    "num_cpus": "hosts on one machine get a share of its CPUs, which the toolkit does not know",
    "channel_input_dirs": "the channel of the code is no channel of the user's",
    "input_data_config": "the channel of the code is no channel of the user's",
}


@pytest.mark.library("sagemaker-training")
@pytest.mark.parametrize("scope", ["data_group", "train_group", None])
def test_the_toolkit_finds_what_launcher_tells(tmp_path: Path, scope: str | None) -> None:
    strategy = {"torch_distributed": {"enabled": True}, "instance_groups": [scope]}
    masters = compare(tmp_path, {"train.py": REPORT}, distribution=strategy if scope else None)
    first = {"data_group": {"algo-1"}, "train_group": {"algo-3"}, None: {"algo-1"}}
    assert masters == first[scope]


@pytest.mark.library("sagemaker-training")
def test_the_toolkit_agrees_beside_a_data_service(tmp_path: Path) -> None:
    """The toolkit alone would take the first data host for the master."""
    masters = compare(
        tmp_path,
        {"train.py": READER, "pipeline.py": PIPELINE},
        data_service=DataService(datasets=("pipeline:Hosts",), workers_per_host=1),
        distribution={"torch_distributed": {"enabled": True}},
    )
    assert masters == {"algo-3"}


def compare(folder: Path, files: Mapping[str, str], **fields: Any) -> set[str]:
    """Compare both on each host of a job of 2+2; the hosts that call themselves the master."""
    import sagemaker_training

    source = folder / "source"
    source.mkdir()
    for name, text in files.items():
        (source / name).write_text(text)
    estimator = PyTorch(
        "train.py",
        source_dir=str(source),
        role="arn:aws:iam::111122223333:role/any",
        instance_groups=[
            InstanceGroup("data_group", "ml.c5.xlarge", 2),
            InstanceGroup("train_group", "ml.c5.xlarge", 2),
        ],
        hyperparameters={"epochs": 3, "name": "abc"},
        environment={"PYTHONPATH": str(Path(sagemaker_training.__file__).parents[1])},
        max_run=150,
        sagemaker_session=LocalSession(folder / "home", "process"),
        **fields,
    )
    job = estimator.fit(job_name="environment", logs=False)
    lines = [line.text for line in job.logs()]
    reports = [json.loads(line[6:]) for line in lines if line.startswith("FOUND ")]
    assert {told["current_host"] for told, _ in reports} == {f"algo-{n}" for n in range(1, 5)}, (
        lines
    )
    for told, found in reports:
        assert differences(told, found) == {}
    return {told["current_host"] for told, _ in reports if told["is_master"]}


def differences(told: dict[str, Any], found: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = (told.keys() | found.keys()) - EXPECTED.keys()
    return {
        name: (told.get(name), found.get(name))
        for name in sorted(names)
        if told.get(name) != found.get(name)
    }
