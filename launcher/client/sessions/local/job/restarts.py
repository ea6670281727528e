"""Starts of local jobs, and restarts by their policy: the keeper of a job creates the next attempt.

The keeper is the job's watchdog, which outlives the client. The name of the next attempt is in the
last description of the one before it, and a name has one job: nothing is created twice.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from launcher.client.sessions.job_names import numbered_names
from launcher.client.sessions.local.host.module_command import module_command, module_environment
from launcher.client.sessions.local.job.job_description import new_description
from launcher.client.sessions.local.job.job_folder import JobFolder
from launcher.client.sessions.local.job.job_root import JobRoot
from launcher.errors import PlatformError
from launcher.shared import cause_text, end_cause

if TYPE_CHECKING:
    from launcher.client.sessions.local.job.job_description import StoredDescription
    from launcher.shared import TrainingJobDescription, TrainingJobRequest

_POLL_SECONDS = 0.1
_MODULE = "launcher.client.sessions.local.job.platform_process"


def start_platform(folder: JobFolder, lock: int, variables: Mapping[str, str]) -> None:
    """Start the process that runs the job, and outlives its caller; pass the job's lock to it.

    variables: added to that process's environment; its hosts do not get them.

    Raises PlatformError when the process does not start.
    """
    with folder.platform_log.open("ab") as log:
        result = subprocess.run(
            module_command(_MODULE, str(folder.path)),
            cwd="/",
            env={**module_environment(), **variables},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=(lock,),
            start_new_session=True,
            check=False,
        )
    if result.returncode != 0:
        raise PlatformError(
            f"the local platform process failed to start (exit code {result.returncode}): "
            f"see {folder.platform_log}"
        )


def with_next_attempt(folder: JobFolder, ended: StoredDescription) -> StoredDescription:
    """Return the description of a job that has ended, with the name of the next attempt at it."""
    settings = folder.settings()
    cause = end_cause(cast("TrainingJobDescription", ended))
    made, retry = settings.attempts or (folder.name,), settings.retry
    if retry is None or not retry.covers(cause) or len(made) >= retry.attempts:
        return ended
    name = next(numbered_names(made[0], _root(folder).has, first=len(made) + 1))
    note = (
        f"it ended with {cause_text(cause)}: job {name} goes on, from its checkpoints if it has any"
    )
    return {**ended, "LocalNextAttempt": name, "LocalNotes": [*ended["LocalNotes"], note]}


def start_next_attempt(folder: JobFolder) -> None:
    """Create the next attempt at a job that has ended, after its pause, unless it is stopped."""
    settings = folder.settings()
    name = folder.status().get("LocalNextAttempt")
    if name is None or settings.retry is None:
        return
    attempts = (*(settings.attempts or (folder.name,)), name)
    start = time.monotonic() + settings.retry.pause(len(attempts))
    while not folder.stop.exists() and folder.path.exists():
        if time.monotonic() >= start:
            break
        time.sleep(_POLL_SECONDS)
    else:
        return
    request: TrainingJobRequest = {**folder.request(), "TrainingJobName": name}
    isolation = settings.isolation.value
    status = new_description(request, arn=settings.arn(name), isolation=isolation, now=time.time())
    status["LocalNotes"] = [
        f"attempt {len(attempts)} of {settings.retry.attempts} at {attempts[0]}"
    ]
    created, lock = _root(folder).create(request, replace(settings, attempts=attempts), status)
    try:
        if folder.record.exists():
            shutil.copyfile(folder.record, created.record)
        start_platform(created, lock, {})
    finally:
        os.close(lock)


def next_attempt(folder: JobFolder) -> str | None:
    """Return the name of the attempt that follows a job; None if none does, or will.

    A keeper that is gone, or was asked to stop, creates none.
    """
    name = folder.status().get("LocalNextAttempt")
    lock = folder.take_lock() if name else None
    is_kept = lock is None and not folder.stop.exists()
    if lock is not None:
        os.close(lock)
    return name if name and (is_kept or _root(folder).has(name)) else None


def _root(folder: JobFolder) -> JobRoot:
    return JobRoot(folder.path.parent.parent)
