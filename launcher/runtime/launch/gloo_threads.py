"""Lets torch's gloo threads become idle before the interpreter shuts down.

A gloo thread of torch drops the last reference to a collective after it has notified the main
thread that the collective is done. This may also drop a Python object: each backward pass leaves a
context in the collectives it starts, and a barrier keeps the collectives it found unfinished. If
Python has begun to shut down by then, the thread is terminated inside a C++ destructor and the
process aborts with SIGABRT although all its work was done (torch 2.13;
https://github.com/pytorch/pytorch/issues/190489). On two busy CPUs, with those threads scheduled
last, 14 of 85 pairs of ranks aborted. With this wait, none of 87 did.

A thread that waits for Python's lock, or for a page from the disk, sleeps although it is not done.
So a thread is idle only if it has not been scheduled at all between two looks: who waits for the
lock wakes up each 5 ms (sys.getswitchinterval), who waits for work does not.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

#: torch's name for the threads that run gloo's collectives.
_THREADS = "pt_gloo_runloop"
#: Threads are idle when several looks in a row, further apart than 5 ms, show no change.
_LOOKS = 3
_PAUSE = 0.008
_TIMEOUT = 10.0


def wait_for_gloo_threads(tasks: Path = Path("/proc/self/task")) -> None:
    """Wait up to 10 s until this process's gloo threads are idle. Has no effect off Linux.

    Call it after the last collective.
    """
    deadline = time.monotonic() + _TIMEOUT
    looks, before = 0, ""
    while looks < _LOOKS and time.monotonic() < deadline:
        time.sleep(_PAUSE)
        now = "\n".join(_activity(tasks))
        if not now:
            return
        looks = looks + 1 if now == before else 0
        before = now


def _activity(tasks: Path) -> Iterator[str]:
    """Yield for each gloo thread a text that differs at each look, unless the thread is idle."""
    with contextlib.suppress(OSError):  # not Linux
        for task in sorted(tasks.iterdir()):
            with contextlib.suppress(OSError):  # it has ended
                if (task / "comm").read_text(errors="replace").strip() == _THREADS:
                    yield f"{task.name} {_running(task)} {_switches(task)}"


def _running(task: Path) -> str:
    """Return a text that differs at each look while a thread runs, or would."""
    state = (task / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    return "" if state == "S" else str(time.monotonic())


def _switches(task: Path) -> str:
    """Return how often a thread has begun to wait, or was interrupted (proc_pid_status(5))."""
    lines = (task / "status").read_text(errors="replace").splitlines()
    return " ".join(line for line in lines if "ctxt_switches" in line)
