"""Watchdog of a job: the parent of its platform process, which ends the job if that process dies.

Kept minimal so that it rarely crashes. If both processes are killed at once, the next reader of the
job ends it (see orphan_cleanup.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from launcher.client.sessions.local import job_description
from launcher.client.sessions.local.job_folder import JobFolder
from launcher.client.sessions.local.orphan_cleanup import fail_orphan
from launcher.client.sessions.local.process_tree import (
    become_subreaper,
    describe_exit,
    kill_until_none,
)
from launcher.client.sessions.local.request_uris import needs_s3
from launcher.client.sessions.local.s3_process import S3Process, spawn
from launcher.errors import PlatformError
from launcher.shared.process_table import descendants


def run_with_watchdog(folder: JobFolder, run: Callable[[S3Process | None], None]) -> None:
    """Run the job in a child process, and mark the job as failed if the child dies first.

    Both processes hold the job's lock as an open descriptor. A job that uses S3 also has an S3
    process, which exits together with them.
    """
    become_subreaper()
    s3_process = spawn(folder) if needs_s3(folder.request()) else None
    platform = os.fork()
    if platform == 0:
        run(s3_process)
        return
    if s3_process:
        s3_process.close()
    _, status = os.waitpid(platform, 0)
    # Processes that the child left behind were reparented to this one.
    kill_until_none(partial(descendants, os.getpid()))
    try:
        if job_description.is_terminal(folder.status()):
            return
    except PlatformError:
        return  # the job's folder was removed
    how = describe_exit(os.waitstatus_to_exitcode(status))
    fail_orphan(folder, f"the local platform process died ({how}): see {folder.platform_log}")
