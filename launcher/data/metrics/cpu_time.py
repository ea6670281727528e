"""CPU time that processes used, and CPU time that they waited for."""

from __future__ import annotations

import contextlib
import os
import resource
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> float:
    """Return the CPU time of this process and its descendants so far, user and kernel."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = time.process_time() + ended.ru_utime + ended.ru_stime
    return own + sum(map(_cpu_of_tree, _children(os.getpid())))


def starved_seconds() -> float:
    """Return how long the main thread was runnable without a CPU; 0 if the kernel hides it.

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
        return 0.0  # it has ended, and is counted in our own times
    return sum(map(int, fields[11:15])) / _TICKS + sum(map(_cpu_of_tree, _children(pid)))


def _children(pid: int) -> list[int]:
    """Return the living children; none if the kernel does not list them (CONFIG_PROC_CHILDREN)."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found
