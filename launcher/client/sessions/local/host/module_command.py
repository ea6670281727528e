"""Command and environment that run a module of this package in a new Python process."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import launcher


def module_command(module: str, *arguments: str) -> Sequence[str]:
    """Return the command that runs a module of this package.

    Use it with `cwd="/"` and `module_environment()`: the caller's folder may hold a launcher.py or
    platform.py of the user's own.
    """
    return [sys.executable, "-m", module, *arguments]


def module_environment() -> dict[str, str]:
    """Return our environment, with the running package's folder first on PYTHONPATH."""
    here = str(Path(launcher.__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}
