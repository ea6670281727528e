"""Programs away from this folder and from any configuration of AWS."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def run_in(python: str, program: str, cwd: Path) -> subprocess.CompletedProcess[str]:
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
