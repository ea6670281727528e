"""The keeper of a job: the parent of its platform process, which ends the job should that die.

Nothing else happens here, so that there is little to die of. Should both be killed at once, whoever
reads the job next ends it (see death.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from launcher.errors import PlatformError
from launcher.sessions.local import description
from launcher.sessions.local.courier import Courier, hire
from launcher.sessions.local.death import close_abandoned
from launcher.sessions.local.folder import JobFolder
from launcher.sessions.local.places import needs_s3
from launcher.sessions.local.processes import (
    become_subreaper,
    descendants,
    how_it_ended,
    kill_until_none,
)


def keep(folder: JobFolder, run: Callable[[Courier | None], None]) -> None:
    """Run the job in a child, and close it as failed if the child does not live to its end.

    The job's lock is an open descriptor of both. A job with something in S3 has a courier beside
    it, which ends with it.
    """
    become_subreaper()
    courier = hire(folder) if needs_s3(folder.request()) else None
    platform = os.fork()
    if platform == 0:
        run(courier)
        return
    if courier:
        courier.close()
    _, status = os.waitpid(platform, 0)
    # Whatever it left below it was adopted by this process.
    kill_until_none(partial(descendants, os.getpid()))
    try:
        if description.is_terminal(folder.status()):
            return
    except PlatformError:
        return  # somebody has removed the job's folder
    how = how_it_ended(os.waitstatus_to_exitcode(status))
    close_abandoned(
        folder, f"the local platform process was lost ({how}): see {folder.platform_log}"
    )
