"""Environments with one of AWS's SDKs each: they cannot be installed beside each other."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
#: What Launcher itself needs beside boto3, which the SDKs bring.
_OURS = ("pathspec", "pyyaml", "click", "rich")


def sdk_python(folder: Path, requirement: str) -> Path:
    """The interpreter of an environment that has a requirement; made once, in minutes."""
    home = folder / requirement.replace("==", "-")
    python, ready = home / "bin" / "python", home / ".ready"
    if not ready.exists():
        venv.create(home, clear=True, symlinks=True, with_pip=True)
        install = [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*install, requirement, *_OURS], check=True, timeout=1200)
        ready.touch()
    return python


def run_in(python: Path, program: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A program that can import Launcher, away from any configuration of AWS."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return subprocess.run(
        [python, "-c", program],
        env={**kept, "PYTHONPATH": str(REPOSITORY), "HOME": str(cwd)},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
