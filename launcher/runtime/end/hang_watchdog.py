"""Hang watchdog of a rank: it reports a main thread that waits in one place without progress.

A thread inspects the main thread repeatedly. The same frame at the same instruction counts as no
progress. The frame is kept referenced while it is compared, so a second call of the same function
is never mistaken for the first. Only waits for other processes count (collectives, the backward
pass of a distributed model, a batch). A rank that computes or saves for an hour is not reported,
and ranks that wait for it are not either before the timeout.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from types import FrameType

from launcher.runtime.end.stacks import StackFrame, is_wait
from launcher.runtime.host.report_files import write_report

#: Inspections of the main thread per timeout, and the longest pause between two, in seconds.
_CHECKS = 50
_LONGEST_PAUSE = 5.0
#: The largest share of the timeout that counts between two inspections.
_LONGEST_GAP = 0.5
#: A backward pass that uses more than this share of a CPU computes and does not wait.
_BUSY = 0.5
#: Innermost frames that show what a thread waits for. Four lie between a socket and the mark of
#: the wait for hosts to start.
_DEPTH = 6


def start(timeout: float, folder: Path, rank: int) -> None:
    """Watch the calling thread from another one; report a hang once, as `hang-<rank>`."""
    watched = threading.get_ident()
    watch = HangWatchdog(timeout, lambda: sys._current_frames().get(watched))

    def watch_thread() -> None:
        while not watch.check(time.monotonic(), time.process_time()):
            time.sleep(min(_LONGEST_PAUSE, timeout / _CHECKS))
        write_report(folder, f"hang-{rank}", {"rank": rank, "seconds": timeout})

    threading.Thread(target=watch_thread, name="hang-watch", daemon=True).start()


class HangWatchdog:
    """Decides when a thread hangs. Time is passed in."""

    def __init__(self, timeout: float, frame: Callable[[], FrameType | None]) -> None:
        self._timeout = timeout
        self._frame = frame
        self._last: tuple[FrameType, int] | None = None
        self._checked_at = 0.0
        self._waited_seconds = 0.0
        self._cpu_at_start = 0.0

    def check(self, now: float, cpu: float) -> bool:
        """Inspect the thread; return true if it has waited in one place for the whole timeout.

        cpu: seconds of CPU time that the process has used.
        """
        frame = self._frame()
        if frame is None or not _is_waiting(frame):
            self._last = None
            return False
        if self._last is None or self._last[0] is not frame or self._last[1] != frame.f_lasti:
            self._last = (frame, frame.f_lasti)
            self._checked_at, self._waited_seconds, self._cpu_at_start = now, 0.0, cpu
            return False
        # After a long gap this process was frozen itself, and so was the rank that it waits for.
        self._waited_seconds += min(now - self._checked_at, self._timeout * _LONGEST_GAP)
        self._checked_at = now
        busy = _may_compute(frame) and cpu - self._cpu_at_start > _BUSY * self._waited_seconds
        return self._waited_seconds >= self._timeout and not busy


def _is_waiting(frame: FrameType) -> bool:
    inside = list(islice(_outwards(frame), _DEPTH))
    if not is_wait(inside):
        return False
    if any(each.is_data_mark for each in inside):
        # The first answer of the data service may take as long as the hosts' start times differ.
        return not any(each.is_first_contact for each in inside)
    return _is_distributed()


def _outwards(frame: FrameType | None) -> Iterator[StackFrame]:
    while frame is not None:
        line = frame.f_lineno or 0  # None between two lines
        yield StackFrame(frame.f_code.co_filename, line, frame.f_code.co_name)
        frame = frame.f_back


def _may_compute(frame: FrameType) -> bool:
    return "/torch/autograd/" in frame.f_code.co_filename


def _is_distributed() -> bool:
    """Return true if there are other ranks to wait for and all of them have joined.

    Before that, torch's own timeout applies (init_process_group).
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return False
    distributed = sys.modules.get("torch.distributed")
    # Missing without torch, in a build without distributed, and while the import is under way.
    is_initialized = getattr(distributed, "is_initialized", None)
    return is_initialized is not None and is_initialized()
