"""Orphan cleanup: detect a platform process that died without ending its job, and end the job.

While the status is not terminal, the platform process and its watchdog hold the job's lock. So a
free lock with a non-terminal status means that both were killed, or that the machine was switched
off. The next reader of the job detects this.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from launcher.client.sessions.local.job import job_description
from launcher.client.sessions.local.job.job_folder import JobFolder
from launcher.client.sessions.local.storage.file_access import ignore_read_only
from launcher.errors import PlatformError
from launcher.shared import MACHINE_RESTARTED, PLATFORM_DIED

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def current_boot() -> str:
    """Return the ID of this machine's current boot; Linux generates a new one at each boot.

    Elsewhere there is none, and the reason of a job that a restart has ended does not name it.
    """
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""


def reconciled_status(folder: JobFolder) -> job_description.StoredDescription:
    """Return the job's description, after cleaning up if its platform process has died."""
    status = folder.status()
    if job_description.is_terminal(status):
        return status
    lock = folder.take_lock()
    if lock is None:
        return status
    try:
        return fail_orphan(folder, _reason(folder))
    finally:
        os.close(lock)


def fail_orphan(
    folder: JobFolder,
    reason: str,
    complete: Callable[
        [JobFolder, job_description.StoredDescription], job_description.StoredDescription
    ] = lambda _folder, ended: ended,
) -> job_description.StoredDescription:
    """Kill the processes of an orphaned job and mark it as failed; the caller holds its lock.

    complete: returns what is written down of the job that has ended.
    """
    # imported here: it is rarely needed, and `launcher list` does not wait for it
    from launcher.client.sessions.local.container.job_containers import remove_containers
    from launcher.client.sessions.local.host.process_tree import kill_until_none, processes_of_host
    from launcher.client.sessions.local.storage.request_uris import discard_drafts

    status = folder.status()
    if job_description.is_terminal(status):
        return status  # another reader did this first
    with contextlib.suppress(PlatformError):  # without the engine, its containers do not run
        remove_containers(folder)
    kill_until_none(partial(processes_of_host, folder.hosts))
    if folder.scratch.is_symlink():
        shutil.rmtree(folder.scratch.readlink(), ignore_errors=True)
        with ignore_read_only():
            folder.scratch.unlink()
    with contextlib.suppress(PlatformError, OSError, ValueError, KeyError):  # a damaged request
        discard_drafts(folder.request(), folder)
    now = time.time()
    status = job_description.finished(
        status, job_description.JobState.FAILED, now=now, reason=reason
    )
    status = complete(folder, status)
    with ignore_read_only():  # each reader finds the same, until one can write it down
        folder.write_status(status)
    return status


def _reason(folder: JobFolder) -> str:
    with contextlib.suppress(PlatformError):  # damaged settings; the platform is dead anyway
        if folder.settings().boot != current_boot():
            return MACHINE_RESTARTED
    return f"{PLATFORM_DIED}: see {folder.platform_log}"
