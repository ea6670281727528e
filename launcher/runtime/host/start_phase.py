"""Reports what a rank does before it trains: it imports torch, or waits for the data service."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

from launcher.runtime.end.wait_marks import wait_for_first_contact
from launcher.runtime.host.event_log import emit

#: Seconds between two looks at the stack, and until something is worth a word.
_PERIOD, _SHORTEST = 0.5, 1.0
#: Seconds without such a phase after which the rank is taken to train.
_ENOUGH = 20.0
_MARK = wait_for_first_contact.__code__


def report_phases() -> None:
    """Report, from another thread, what the calling one imports or waits for as it starts."""
    watched = threading.get_ident()
    phases = StartPhases(lambda: sys._current_frames().get(watched))

    def watch() -> None:
        while phases.look(time.monotonic()):
            time.sleep(_PERIOD)

    threading.Thread(target=watch, name="start-phases", daemon=True).start()


class StartPhases:
    """Emits `host_phase` when a phase has taken a moment, and at its end. Time is passed in."""

    def __init__(self, frame: Callable[[], FrameType | None]) -> None:
        self._frame = frame
        self._phase = self._reported = ""
        self._since: float | None = None

    def look(self, now: float) -> bool:
        """Inspect the thread; return false once no phase has been seen for some time."""
        phase = start_phase(self._frame())
        if self._since is None or phase != self._phase:
            self._phase, self._since = phase, now
        if phase != self._reported and (not phase or now - self._since >= _SHORTEST):
            emit("host_phase", doing=phase)
            self._reported = phase
        return bool(phase) or now - self._since < _ENOUGH


def start_phase(frame: FrameType | None) -> str:
    """Return what a thread does, given its innermost frame; "" if it runs the script."""
    imported = ""
    while frame is not None:
        if frame.f_code is _MARK:
            return "waiting for the data service"
        name = str(frame.f_globals.get("__name__"))
        if frame.f_code.co_name == "<module>" and _is_package(frame, name):
            imported = name.partition(".")[0]  # the outermost one is what the script imports
        frame = frame.f_back
    return f"importing {imported}" if imported else ""


def _is_package(frame: FrameType, name: str) -> bool:
    code = os.environ.get("SM_MODULE_DIR", "")
    is_users = bool(code) and frame.f_code.co_filename.startswith(f"{code}{os.sep}")
    return name not in ("__main__", "None") and not name.startswith("launcher.") and not is_users
