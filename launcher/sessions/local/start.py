"""The start of a job's platform process, which goes on when its caller goes away."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import launcher
from launcher.errors import PlatformError
from launcher.sessions.local.folder import JobFolder

_MODULE = "launcher.sessions.local.platform"


def start_platform(folder: JobFolder, lock: int) -> None:
    """Start the process that runs the job, and hand the job's lock over to it.

    Raises PlatformError when it does not come up.
    """
    with folder.platform_log.open("ab") as log:
        result = subprocess.run(
            [sys.executable, "-m", _MODULE, str(folder.path)],
            # The caller's folder may hold a launcher.py or platform.py of the user's own.
            cwd="/",
            env={**os.environ, "PYTHONPATH": _import_path()},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=(lock,),
            start_new_session=True,
            check=False,
        )
    if result.returncode != 0:
        raise PlatformError(
            f"the local platform process did not start (exit code {result.returncode}): "
            f"see {folder.platform_log}"
        )


def _import_path() -> str:
    """PYTHONPATH with which a new interpreter finds the package that runs now."""
    here = str(Path(launcher.__file__).resolve().parent.parent)
    return os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
