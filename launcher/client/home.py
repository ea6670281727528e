"""The folder of what Launcher keeps on this machine: jobs, records, sources, the user's files."""

from __future__ import annotations

import os
from pathlib import Path

HOME_VARIABLE = "LAUNCHER_HOME"


def home_folder() -> Path:
    """Return $LAUNCHER_HOME, or ~/.launcher; it may not exist."""
    return Path(os.environ.get(HOME_VARIABLE) or "~/.launcher").expanduser()
