"""A job on this machine, run to its end by the command line in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def completed_run(job: Path, home: Path, *options: str) -> tuple[dict[str, Any], str]:
    """Return a job's summary, and the log that was followed."""
    done = subprocess.run(
        [*(sys.executable, "-m", "launcher", "run", job, "--local", "-v", "-o", "json"), *options],
        env={**os.environ, "LAUNCHER_HOME": str(home), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=570,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr
