"""Lets torch's threads come to rest before Python ends under them.

A thread of torch's gloo drops a collective's last reference after it has told the main thread that
the collective is done. With it may go a Python object: each backward pass leaves a context in the
collectives it starts, and a barrier keeps those it found unfinished. If Python has begun to end by
then, the thread is ended in the midst of a C++ destructor, and the process with SIGABRT, after all
its work was done (torch 2.13; https://github.com/pytorch/pytorch/issues/190489). On two busy CPUs,
with those threads scheduled last, 14 of 85 pairs of ranks ended so, and of 87 that settled none.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

#: What torch calls the threads that run gloo's collectives.
_THREADS = "pt_gloo_runloop"
#: A thread that waits for Python's lock gets it while this one sleeps, and is at rest when it is
#: so at one look after the other.
_LOOKS = 3
_PAUSE = 0.005
_PATIENCE = 10.0


def settle(tasks: Path = Path("/proc/self/task")) -> None:
    """Return when this process's gloo threads wait for work, or after 10 s; on Linux.

    Call it after the last collective.
    """
    deadline = time.monotonic() + _PATIENCE
    looks = 0
    while looks < _LOOKS and time.monotonic() < deadline:
        time.sleep(_PAUSE)
        states = list(_states(tasks))
        if not states:
            return
        looks = 0 if "R" in states else looks + 1


def _states(tasks: Path) -> Iterator[str]:
    """A letter for each of gloo's threads (proc_pid_stat(5)): R is one that runs, or would."""
    with contextlib.suppress(OSError):  # no Linux
        for task in tasks.iterdir():
            with contextlib.suppress(OSError):  # it has ended
                stat = (task / "stat").read_text(errors="replace")
                name, _, state = stat.partition("(")[2].rpartition(")")
                if name == _THREADS:
                    yield state.split()[0]
