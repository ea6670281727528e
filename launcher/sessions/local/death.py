"""A platform process that died without ending its job: whoever reads the job notices, and ends it.

While the status is not terminal, the platform process and its keeper hold the job's lock. So a free
lock under such a status means that both were killed, or that the machine was switched off.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

from launcher.errors import PlatformError
from launcher.sessions.local import description
from launcher.sessions.local.folder import JobFolder
from launcher.sessions.local.places import discard_drafts
from launcher.sessions.local.processes import kill_until_none, marked

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def current_boot() -> str:
    """What tells one run of this machine from the next; Linux makes it at each boot."""
    return _BOOT_ID.read_text().strip()


def settled_status(folder: JobFolder) -> dict[str, Any]:
    """The job's description, after a dead platform process was noticed and cleaned up after."""
    status = folder.status()
    if description.is_terminal(status):
        return status
    lock = folder.take_lock()
    if lock is None:
        return status
    try:
        return close_abandoned(folder, _reason(folder))
    finally:
        os.close(lock)


def close_abandoned(folder: JobFolder, reason: str) -> dict[str, Any]:
    """End what is left of a job and close it as failed, once; its lock must be held."""
    status = folder.status()
    if description.is_terminal(status):
        return status  # of several readers one was quicker
    kill_until_none(partial(marked, folder.hosts))
    if folder.scratch.is_symlink():
        shutil.rmtree(folder.scratch.readlink(), ignore_errors=True)
        folder.scratch.unlink()
    with contextlib.suppress(PlatformError, OSError, ValueError, KeyError):  # a damaged request
        discard_drafts(folder.request(), folder)
    now = time.time()
    status = description.closed(status, description.State.FAILED, now=now, reason=reason)
    folder.write_status(status)
    return status


def _reason(folder: JobFolder) -> str:
    with contextlib.suppress(PlatformError):  # damaged settings; the platform is dead all the same
        if folder.settings().boot != current_boot():
            return "this machine was restarted while the job ran"
    return f"the local platform process died; what it said is in {folder.platform_log}"
