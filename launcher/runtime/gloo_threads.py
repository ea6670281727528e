"""Lets torch's gloo threads become idle before the interpreter shuts down.

A gloo thread of torch drops the last reference to a collective after it has notified the main
thread that the collective is done. This may also drop a Python object: each backward pass leaves a
context in the collectives it starts, and a barrier keeps the collectives it found unfinished. If
Python has begun to shut down by then, the thread is terminated inside a C++ destructor and the
process aborts with SIGABRT although all its work was done (torch 2.13;
https://github.com/pytorch/pytorch/issues/190489). On two busy CPUs, with those threads scheduled
last, 14 of 85 pairs of ranks aborted. With this wait, none of 87 did.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

#: torch's name for the threads that run gloo's collectives.
_THREADS = "pt_gloo_runloop"
#: A thread that waits for the GIL gets it while this thread sleeps. Threads count as idle when
#: several polls in a row find them so.
_LOOKS = 3
_PAUSE = 0.005
_TIMEOUT = 10.0


def wait_for_gloo_threads(tasks: Path = Path("/proc/self/task")) -> None:
    """Wait up to 10 s until this process's gloo threads are idle. Has no effect off Linux.

    Call it after the last collective.
    """
    deadline = time.monotonic() + _TIMEOUT
    looks = 0
    while looks < _LOOKS and time.monotonic() < deadline:
        time.sleep(_PAUSE)
        states = list(_states(tasks))
        if not states:
            return
        looks = 0 if "R" in states else looks + 1


def _states(tasks: Path) -> Iterator[str]:
    """Yield the state letter of each gloo thread (proc_pid_stat(5)); R is running or runnable."""
    with contextlib.suppress(OSError):  # not Linux
        for task in tasks.iterdir():
            with contextlib.suppress(OSError):  # it has ended
                stat = (task / "stat").read_text(errors="replace")
                name, _, state = stat.partition("(")[2].rpartition(")")
                if name == _THREADS:
                    yield state.split()[0]
