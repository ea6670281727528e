"""The processes of a local job, found through /proc so that none survives the job.

Descendants that call setsid or outlive their parents are reparented to the platform process (it is
their subreaper), and every process of a host carries a variable that names its host.

Not psutil: the job world needs the same scan of /proc without dependencies, and both use it
(shared/process_table.py).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from launcher.errors import PlatformError
from launcher.shared import process_ids, read_process_file, signal_all

#: Environment variable of all processes of a host; its value is the host's folder.
HOST_VARIABLE = "LAUNCHER_LOCAL_HOST"

# linux/prctl.h
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_POLL_SECONDS = 0.02
#: A killed process exits at once, unless the kernel blocks it (a dead network disk).
_KILL_SECONDS = 30.0
_LIBC = ctypes.CDLL(None, use_errno=True)


def call_libc(function: str, *arguments: object) -> None:
    """Call a C function that returns 0 on success; else raise OSError with errno's message."""
    if getattr(_LIBC, function)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{function}: {os.strerror(code)}")


def become_subreaper() -> None:
    """Make every orphaned descendant a child of this process from now on.

    Only Linux can, where hosts are descendants; those of a container end with it.
    """
    if sys.platform == "linux":
        call_libc("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """Ask the kernel for a SIGTERM when the parent dies; call between fork and exec."""
    call_libc("prctl", _PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def processes_of_host(folder: Path, pids: Iterable[int] | None = None) -> list[int]:
    """Return those of `pids` (None: all) of the host with this folder, or of any host below it."""
    exact = f"{HOST_VARIABLE}={folder}".encode()
    return [
        pid
        for pid in (process_ids() if pids is None else pids)
        if any(
            entry == exact or entry.startswith(exact + b"/")
            for entry in read_process_file(pid, "environ").split(b"\0")
        )
    ]


def reap_orphans(known: Collection[int]) -> None:
    """Reap reparented children that have ended, and leave the known ones to their owners."""
    while sys.platform == "linux":  # elsewhere they are not ours
        try:
            # WNOWAIT does not reap, so that the status of a known child is not lost.
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid in known:
            return
        os.waitpid(ended.si_pid, 0)


def kill_until_none(alive: Callable[[], list[int]]) -> None:
    """Send SIGKILL to the processes that `alive` lists, repeatedly, until it lists none.

    Raises PlatformError when one cannot be killed.
    """
    deadline = time.monotonic() + _KILL_SECONDS
    while remaining := alive():
        if time.monotonic() > deadline:
            raise PlatformError(f"processes {remaining} are still alive after SIGKILL")
        signal_all(remaining, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
        reap_orphans(known=())


def describe_exit(code: int) -> str:
    """Describe an exit code: "exit code 3", or for a negative one "killed by SIGKILL"."""
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"exit code {code}"
