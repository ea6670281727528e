"""A shell script as entry point: its own interpreter, the hyperparameters, and its exit code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher import Estimator, InstanceGroup, JobFailed
from launcher.client.jobs import Job

Run = Callable[[str], Job]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "home"))
    source = tmp_path / "source"
    source.mkdir()

    def fit(text: str) -> Job:
        (source / "train.sh").write_text(text)
        given: dict[str, Any] = {"hyperparameters": {"epochs": 3, "name": "a b"}}
        estimator = Estimator(
            entry_point="train.sh",
            source_dir=source,
            instance_type="local",
            instance_count=1,
            **given,
        )
        return estimator.fit(logs=False)

    return fit


@pytest.mark.long
@pytest.mark.parametrize("first", ["#!/bin/bash\n", ""], ids=["bash", "sh"])
def test_it_gets_the_hyperparameters_and_the_folder_of_the_code(run: Run, first: str) -> None:
    job = run(first + 'echo "got $# $2 $4 in $(basename "$PWD") of $SM_CURRENT_HOST"\n')
    lines = [line.readable for line in job.logs()]
    assert any("got 4 3 a b in " in line and line.endswith("of algo-1") for line in lines), lines


@pytest.mark.long
def test_its_exit_code_is_the_reason(run: Run) -> None:
    with pytest.raises(JobFailed, match="exit code 3"):
        run("exit 3\n")


@pytest.mark.long
def test_every_host_of_script_groups_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAUNCHER_HOME", str(tmp_path / "home"))
    (tmp_path / "train.sh").write_text('#!/bin/bash\nnames=(x "$2"); echo "got ${names[1]}"\n')
    groups = [InstanceGroup("data", "local"), InstanceGroup("dnn", "local")]
    estimator = Estimator(
        entry_point=tmp_path / "train.sh", instance_groups=groups, hyperparameters={"epochs": 3}
    )
    job = estimator.fit(logs=False)
    assert [line.text for line in job.logs() if line.text.startswith("got")] == ["got 3", "got 3"]
