"""A rank watches itself: whether its main thread waits in one place and never gets on.

A thread looks at the main thread again and again. The same frame at the same instruction is no
progress; and since the frame is held on to while it is compared, a second call of the same function
is never taken for the first. Only waits for other processes count (collectives, the backward
pass of a distributed model, a batch): a rank that computes or saves for an hour is not touched, and
those who wait for it are within their rights until the time is over.
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

from launcher.runtime.reports import write_report
from launcher.runtime.stacks import Frame, is_wait

#: How many times in the timeout the main thread is looked at, and how often at most.
_LOOKS = 50
_LONGEST_PAUSE = 5.0
#: The share of the timeout that counts at most between two looks.
_LONGEST_GAP = 0.5
#: A backward pass that takes this share of a CPU computes, and does not wait.
_BUSY = 0.5
#: Frames that tell what a thread waits for: between the socket and the loader's source are four.
_DEPTH = 6
#: The functions of the loader's source that wait for hosts to start.
_FIRST_CONTACT = ("describe", "_connect")


def start(timeout: float, folder: Path, rank: int) -> None:
    """Watch the calling thread, from another one; reports once, as `hang-<rank>`."""
    watched = threading.get_ident()
    watch = Watch(timeout, lambda: sys._current_frames().get(watched))

    def look_on() -> None:
        while not watch.look(time.monotonic(), time.process_time()):
            time.sleep(min(_LONGEST_PAUSE, timeout / _LOOKS))
        write_report(folder, f"hang-{rank}", {"rank": rank, "seconds": timeout})

    threading.Thread(target=look_on, name="hang-watch", daemon=True).start()


class Watch:
    """Decides when a thread hangs. Time is passed in."""

    def __init__(self, timeout: float, frame: Callable[[], FrameType | None]) -> None:
        self._timeout = timeout
        self._frame = frame
        self._last: tuple[FrameType, int] | None = None
        self._looked = 0.0
        self._waited = 0.0
        self._cpu_before = 0.0

    def look(self, now: float, cpu: float) -> bool:
        """Look at the thread; whether it has waited in one place for the whole timeout.

        cpu: seconds of CPU that the process has used.
        """
        frame = self._frame()
        if frame is None or not _waits(frame):
            self._last = None
            return False
        if self._last is None or self._last[0] is not frame or self._last[1] != frame.f_lasti:
            self._last = (frame, frame.f_lasti)
            self._looked, self._waited, self._cpu_before = now, 0.0, cpu
            return False
        # Who has not looked for long was frozen itself, and so was the rank that it waits for.
        self._waited += min(now - self._looked, self._timeout * _LONGEST_GAP)
        self._looked = now
        busy = _computes(frame) and cpu - self._cpu_before > _BUSY * self._waited
        return self._waited >= self._timeout and not busy


def _waits(frame: FrameType) -> bool:
    inside = list(islice(_outwards(frame), _DEPTH))
    if not is_wait(inside):
        return False
    if any(each.is_loader for each in inside):
        # The first answer of the data service may take as long as hosts start apart.
        return all(each.function not in _FIRST_CONTACT for each in inside)
    return _is_distributed()


def _outwards(frame: FrameType | None) -> Iterator[Frame]:
    while frame is not None:
        line = frame.f_lineno or 0  # None between two lines
        yield Frame(frame.f_code.co_filename, line, frame.f_code.co_name)
        frame = frame.f_back


def _computes(frame: FrameType) -> bool:
    return "/torch/autograd/" in frame.f_code.co_filename


def _is_distributed() -> bool:
    """Whether there are other ranks to wait for, and all of them have come.

    Until they have, torch's own timeout counts (init_process_group).
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return False
    distributed = sys.modules.get("torch.distributed")
    return bool(distributed and distributed.is_available() and distributed.is_initialized())
