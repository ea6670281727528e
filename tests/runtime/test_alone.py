"""The job world needs numpy and the standard library, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hosts import Hosts
from programs import PIPELINE, READER

from launcher.shared import Launch


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter whose only third-party package is numpy."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for source in Path(np.__file__).parents[1].glob("numpy*"):
        (folder / "lib" / version / "site-packages" / source.name).symlink_to(source)
    return str(folder / "bin" / "python")


def test_the_bare_interpreter_has_nothing_of_ours(bare_python: str) -> None:
    ours = ["boto3", "yaml", "click", "rich", "torch", "launcher"]
    finding = f"from importlib.util import find_spec; print(*filter(find_spec, {ours}))"
    command = [bare_python, "-c", finding]
    assert subprocess.check_output(command, text=True, cwd="/", env={}) == "\n"


@pytest.mark.long
def test_a_job_with_a_data_service_runs_with_numpy_alone(
    bare_python: str, make_hosts: Callable[..., Hosts]
) -> None:
    hosts = make_hosts(
        {"pipeline.py": PIPELINE, "train.py": READER}, data=1, train=2, python=bare_python
    )
    hosts.run()
    assert hosts.output().count("sha256=") == 4


def test_a_name_of_the_sdk_is_refused_with_a_clear_word_inside_a_job(
    bare_python: str, make_hosts: Callable[..., Hosts]
) -> None:
    hosts = make_hosts({"train.py": "from launcher import Estimator\n"}, python=bare_python)
    hosts.fail()
    assert "Estimator" in (hosts["algo-1"].failure or "")
    assert "inside" in (hosts["algo-1"].failure or ""), hosts["algo-1"].failure


def test_torchrun_without_torch_is_refused_with_a_clear_word(
    bare_python: str, make_hosts: Callable[..., Hosts]
) -> None:
    hosts = make_hosts({"train.py": ""}, python=bare_python, launch=Launch.TORCHRUN)
    hosts.fail()
    assert "torchrun needs torch, which" in (hosts["algo-1"].failure or "")
