"""A shell script as entry point: its own interpreter, the hyperparameters, and its exit code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bench import fit

from launcher import InstanceGroup, JobFailed, LocalSession
from launcher.client.jobs import Job

HYPERPARAMETERS = {"epochs": 3, "name": "a b"}
Run = Callable[..., Job]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    session = LocalSession(tmp_path / "home")
    given: dict[str, Any] = {"entry_point": "train.sh", "hyperparameters": HYPERPARAMETERS}

    def run(text: str, **machines: Any) -> Job:
        return fit(session, tmp_path / "source", {"train.sh": text}, **given, **machines)

    return run


@pytest.mark.long
def test_it_gets_the_hyperparameters_and_the_folder_of_the_code(run: Run) -> None:
    job = run('echo "got $# $2 $4 in $(basename "$PWD") of $SM_CURRENT_HOST"\n')
    lines = [line.readable for line in job.logs()]
    assert any("got 4 3 a b in " in line and line.endswith("of algo-1") for line in lines), lines


@pytest.mark.long
def test_its_exit_code_is_the_reason(run: Run) -> None:
    with pytest.raises(JobFailed, match="exit code 3"):
        run("exit 3\n")


@pytest.mark.long
def test_every_host_of_script_groups_runs_it_in_the_shell_that_it_names(run: Run) -> None:
    groups = [InstanceGroup("data", "local"), InstanceGroup("dnn", "local")]
    text = '#!/bin/bash\nnames=(x "$2"); echo "got ${names[1]}"\n'
    job = run(text, instance_groups=groups)
    assert [line.text for line in job.logs() if line.text.startswith("got")] == ["got 3", "got 3"]
