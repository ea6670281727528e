"""The living processes of this machine, read from /proc, and signals to several of them.

macOS, which runs no host itself but the client's side of containers, has `ps` instead.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

_PROC = Path("/proc")


def process_ids() -> Iterator[int]:
    """Yield the id of every process, zombies included."""
    if not _PROC.is_dir():
        return (pid for pid, *_ in _states_of_ps())
    return (int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())


def read_process_file(pid: int, file: str) -> bytes:
    """Return a file of a process; empty when the process has exited or belongs to another user."""
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""


def living_children() -> dict[int, list[int]]:
    """Return this machine's living processes by parent; zombies are left out."""
    children: dict[int, list[int]] = {}
    for pid, state, parent in _states():
        if state not in (b"Z", b"X"):
            children.setdefault(parent, []).append(pid)
    return children


def zombies_of(parent: int) -> list[int]:
    """Return the children of a process that have ended, and that it has not waited for."""
    return [pid for pid, state, its_parent in _states() if (state, its_parent) == (b"Z", parent)]


def _states() -> Iterator[tuple[int, bytes, int]]:
    """Yield each process with its state and its parent."""
    if not _PROC.is_dir():
        yield from _states_of_ps()
        return
    for pid in process_ids():
        # The fields after the command, which is in parentheses and may contain anything.
        fields = read_process_file(pid, "stat").rpartition(b")")[2].split()
        if fields:
            yield pid, fields[0], int(fields[1])


def _states_of_ps() -> Iterator[tuple[int, bytes, int]]:
    words = ["ps", "-A", "-o", "pid=", "-o", "state=", "-o", "ppid="]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as ps:
        lines = ps.communicate()[0].splitlines()
    for line in lines:
        pid, state, parent = line.split()
        if int(pid) != ps.pid:
            yield int(pid), state[:1], int(parent)


def descendants(root: int, without: Collection[int] = ()) -> list[int]:
    """Return every living process below `root`, whatever session or group it moved to.

    without: processes that are left out, with all below them.
    """
    children = living_children()
    found: list[int] = []
    frontier = [root]
    while frontier:
        below = [pid for pid in children.get(frontier.pop(), []) if pid not in without]
        found += below
        frontier += below
    return found


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to each process; ignore those that have exited."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
