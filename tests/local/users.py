"""Scenario programs of this folder, run by whoever runs the tests and by the user nobody."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import launcher

REPOSITORY = Path(launcher.__file__).parent.parent
HERE = Path(__file__).parent
KIT = HERE.parent / "kit"


def environment_of(repository: Path) -> dict[str, str]:
    path = f"{repository}{os.pathsep}{repository / 'tests' / 'kit'}"
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def as_me(scenario: str) -> subprocess.CompletedProcess[str]:
    return _run([sys.executable, str(HERE / scenario)], REPOSITORY)


def as_nobody(scenario: str) -> subprocess.CompletedProcess[str]:
    if os.geteuid() != 0 or shutil.which("runuser") is None:
        pytest.skip("only root can become another user")
    return run_as(["runuser", "-u", "nobody", "--"], scenario)


def run_as(prefix: Sequence[str], scenario: str) -> subprocess.CompletedProcess[str]:
    """With a copy of the package, since the user may not be able to read this one.

    prefix: becomes the user.
    """
    with _readable_copy() as copy:
        for python in (sys.executable, "/usr/bin/python3"):
            program = "import sys; assert sys.version_info >= (3, 10)"
            if (
                subprocess.run([*prefix, python, "-c", program], capture_output=True).returncode
                == 0
            ):
                return _run([*prefix, python, str(copy / scenario)], copy)
    pytest.skip("the user can run no Python of version 3.10 or newer")


def report_of(
    scenario: str, run: Callable[[str], subprocess.CompletedProcess[str]]
) -> dict[str, Any]:
    """What a scenario has found, printed as JSON; a skip where it found an obstacle."""
    result = run(scenario)
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    if "obstacle" in found:
        pytest.skip(found["obstacle"])
    return found


@contextmanager
def _readable_copy() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="launcher-for-nobody-") as folder:
        copy = Path(folder)
        copy.chmod(0o755)
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / "launcher", copy / "launcher", ignore=ignored)
        copy_botocore(copy)
        for file in (*HERE.glob("*.py"), KIT / "containers.py", KIT / "waiting.py"):
            shutil.copy(file, copy)
        yield copy


def copy_botocore(folder: Path) -> None:
    """Copy botocore, which has SageMaker's limits, with what it imports; other services stay."""
    for name in ("botocore", "dateutil", "jmespath", "six", "urllib3"):
        origin = Path(str(importlib.import_module(name).__file__))
        if origin.name == "__init__.py":
            shutil.copytree(origin.parent, folder / name, ignore=_other_services)
        else:
            shutil.copy(origin, folder)


def _other_services(folder: str, names: list[str]) -> set[str]:
    if (Path(folder).parent.name, Path(folder).name) != ("botocore", "data"):
        return {"__pycache__"}
    return {name for name in names if (Path(folder) / name).is_dir()} - {"sagemaker"}


def _run(command: list[str], repository: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd="/",
        env=environment_of(repository),
        capture_output=True,
        text=True,
        timeout=540,
    )
