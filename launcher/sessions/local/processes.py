"""The processes of a local job, found through /proc: none is lost from sight, none is left.

Descendants that call setsid or outlive their parents are adopted by the platform process (it is
their subreaper), and every process of a host carries a variable that names its host.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from launcher.errors import PlatformError
from launcher.sessions.local import libc

#: Names the host (its folder) in the environment of all its processes.
HOST_VARIABLE = "LAUNCHER_LOCAL_HOST"

# linux/prctl.h
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_POLL_SECONDS = 0.02
#: A killed process is gone at once, unless the kernel holds it (a dead network disk).
_KILL_SECONDS = 30.0


def become_subreaper() -> None:
    """Adopt every orphan below this process from now on."""
    libc.call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """Ask the kernel for a SIGTERM when the parent dies; called between fork and exec."""
    libc.call("prctl", _PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def living_children() -> dict[int, list[int]]:
    """The living processes of this machine by their parent; zombies are not living."""
    children: dict[int, list[int]] = {}
    for pid in _pids():
        # The fields after the command, which stands in parentheses and may hold anything.
        fields = _read(pid, "stat").rpartition(b")")[2].split()
        if fields and fields[0] not in (b"Z", b"X"):
            children.setdefault(int(fields[1]), []).append(pid)
    return children


def descendants(root: int) -> list[int]:
    """Every living process below `root`, whatever session or group it moved to."""
    children = living_children()
    found: list[int] = []
    frontier = [root]
    while frontier:
        below = children.get(frontier.pop(), [])
        found += below
        frontier += below
    return found


def marked(mark: Path, pids: Iterable[int] | None = None) -> list[int]:
    """Those of `pids` (None: of all) that belong to a host whose folder is `mark`, or below it."""
    exact = f"{HOST_VARIABLE}={mark}".encode()
    return [
        pid
        for pid in (_pids() if pids is None else pids)
        if any(
            entry == exact or entry.startswith(exact + b"/")
            for entry in _read(pid, "environ").split(b"\0")
        )
    ]


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to each; one that is gone already is no error."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def reap_orphans(known: Collection[int]) -> None:
    """Collect adopted children that have ended, and leave the known ones to their owners."""
    while True:
        try:
            # A look without collecting, so that the status of a known child is not lost.
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid in known:
            return
        os.waitpid(ended.si_pid, 0)


def kill_until_none(alive: Callable[[], list[int]], *, known: Collection[int] = ()) -> None:
    """SIGKILL what `alive` lists, anew each time, until it lists nothing.

    Raises PlatformError when something cannot be killed.
    """
    deadline = time.monotonic() + _KILL_SECONDS
    while remaining := alive():
        if time.monotonic() > deadline:
            raise PlatformError(f"processes {remaining} do not end, though they were killed")
        signal_all(remaining, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
        reap_orphans(known)


def how_it_ended(code: int) -> str:
    """What an exit code says: "exit code 3", or for a negative one "killed by SIGKILL"."""
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"exit code {code}"


def _pids() -> Iterator[int]:
    return (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())


def _read(pid: int, file: str) -> bytes:
    """A file of a process; empty when the process is gone or another user's."""
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""
