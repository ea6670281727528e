"""CPU time that processes have had, and that they wanted."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> float:
    """CPU time of this process and all below it, user and kernel, so far."""
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    return own + sum(map(_cpu_of_tree, _children(os.getpid())))


def starved_seconds() -> float:
    """How long the main thread was ready to run and had no CPU; 0 where the kernel does not tell.

    https://docs.kernel.org/scheduler/sched-stats.html
    """
    try:
        return int(Path(f"/proc/{os.getpid()}/schedstat").read_bytes().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def _cpu_of_tree(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0.0  # it has ended, and is in our own times
    return sum(map(int, fields[11:15])) / _TICKS + sum(map(_cpu_of_tree, _children(pid)))


def _children(pid: int) -> list[int]:
    """The living children; none where the kernel does not tell (CONFIG_PROC_CHILDREN)."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found
