"""The start of a job's platform process, which goes on when its caller goes away."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping

from launcher.errors import PlatformError
from launcher.sessions.local.folder import JobFolder
from launcher.sessions.local.interpreter import module_command, module_environment

_MODULE = "launcher.sessions.local.platform"


def start_platform(folder: JobFolder, lock: int, variables: Mapping[str, str]) -> None:
    """Start the process that runs the job, and hand the job's lock over to it.

    variables: of that process, beside our own; its hosts do not get them.

    Raises PlatformError when it does not come up.
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
            f"the local platform process did not start (exit code {result.returncode}): "
            f"see {folder.platform_log}"
        )
