"""A platform process that died without ending its job: whoever reads the job notices, and ends it.

While the status is not terminal, the platform process holds the job's lock. So a free lock under
such a status means that it was killed, or that the machine was switched off.
"""

from __future__ import annotations

import os
import shutil
import time
from functools import partial
from typing import Any

from launcher.sessions.local import description
from launcher.sessions.local.folder import JobFolder
from launcher.sessions.local.processes import kill_until_none, marked


def settled_status(folder: JobFolder) -> dict[str, Any]:
    """The job's description, after a dead platform process was noticed and cleaned up after."""
    status = folder.status()
    if description.is_terminal(status):
        return status
    lock = folder.take_lock()
    if lock is None:
        return status
    try:
        return _closed_by_us(folder)
    finally:
        os.close(lock)


def _closed_by_us(folder: JobFolder) -> dict[str, Any]:
    """Runs under the lock: of several readers one writes, and the others find it done."""
    status = folder.status()
    if description.is_terminal(status):
        return status
    kill_until_none(partial(marked, folder.hosts))
    if folder.scratch.is_symlink():
        shutil.rmtree(folder.scratch.readlink(), ignore_errors=True)
        folder.scratch.unlink()
    status = description.closed(
        status,
        description.State.FAILED,
        now=time.time(),
        reason=f"the local platform process died; what it said is in {folder.platform_log}",
    )
    folder.write_status(status)
    return status
