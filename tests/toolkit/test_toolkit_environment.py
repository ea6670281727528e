"""The toolkit's own Environment() inside each host of a 2+2 job equals what Launcher tells it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from launcher import InstanceGroup, LocalSession, PyTorch

#: Reads both, in the plain Python of a host or in a rank.
SCRIPT = """\
import json, os
told = json.loads(os.environ["SM_TRAINING_ENV"])

from sagemaker_training.environment import Environment
found = dict(Environment())
print("FOUND", json.dumps([told, found], default=str), flush=True)
"""
#: Differences that are intended, each with its reason.
EXPECTED = {
    "num_cpus": "hosts on one machine get a share of its CPUs, which the toolkit does not know",
    "channel_input_dirs": "the channel of the code is no channel of the user's",
    "input_data_config": "the channel of the code is no channel of the user's",
}


@pytest.mark.library("sagemaker-training")
@pytest.mark.parametrize("scope", ["data_group", "train_group", None])
def test_the_toolkit_finds_what_launcher_tells(tmp_path: Path, scope: str | None) -> None:
    import sagemaker_training

    (tmp_path / "train.py").write_text(SCRIPT)
    strategy = {"torch_distributed": {"enabled": True}, "instance_groups": [scope]}
    estimator = PyTorch(
        "train.py",
        source_dir=str(tmp_path),
        role="arn:aws:iam::111122223333:role/any",
        instance_groups=[
            InstanceGroup("data_group", "ml.c5.xlarge", 2),
            InstanceGroup("train_group", "ml.c5.xlarge", 2),
        ],
        distribution=strategy if scope else None,
        hyperparameters={"epochs": 3, "name": "abc"},
        environment={"PYTHONPATH": str(Path(sagemaker_training.__file__).parents[1])},
        max_run=150,
        sagemaker_session=LocalSession(tmp_path / "home", "process"),
    )
    job = estimator.fit(job_name="environment", logs=False)
    lines = [line.text for line in job.logs()]
    reports = [json.loads(line[6:]) for line in lines if line.startswith("FOUND ")]
    assert len(reports) == 4, lines
    for told, found in reports:
        assert differences(told, found) == {}
    masters = {told["current_host"] for told, _ in reports if told["is_master"]}
    first = {"data_group": {"algo-1"}, "train_group": {"algo-3"}, None: {"algo-1"}}
    assert masters == first[scope]


def differences(told: dict[str, Any], found: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = (told.keys() | found.keys()) - EXPECTED.keys()
    return {
        name: (told.get(name), found.get(name))
        for name in sorted(names)
        if told.get(name) != found.get(name)
    }
