"""Start of a job's platform process, which keeps running when its caller exits."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from launcher.client.sessions.local.host.module_command import module_command, module_environment
from launcher.client.sessions.local.job.job_folder import JobFolder
from launcher.errors import PlatformError

_MODULE = "launcher.client.sessions.local.job.platform_process"


def start_platform(folder: JobFolder, lock: int, variables: Mapping[str, str]) -> None:
    """Start the process that runs the job, and pass the job's lock to it.

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
