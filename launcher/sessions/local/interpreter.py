"""A new Python process that finds this package, wherever it lies and whoever starts it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import launcher


def module_command(module: str, *arguments: str) -> Sequence[str]:
    """The command that runs a module of this package; for `cwd="/"` and `module_environment()`.

    The caller's folder may hold a launcher.py or platform.py of the user's own.
    """
    return [sys.executable, "-m", module, *arguments]


def module_environment() -> dict[str, str]:
    """Our environment, with a PYTHONPATH that names the package that runs now before all else."""
    here = str(Path(launcher.__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path}
