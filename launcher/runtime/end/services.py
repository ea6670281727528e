"""Supervised child processes that must live as long as the trainer: the dispatcher, a receiver."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

from launcher.runtime.host import processes
from launcher.runtime.host.event_log import emit

#: Seconds within which crashes are counted. Above the limit, another restart would not help.
CRASH_WINDOW = 30.0
#: Exit code of a service that restarts processes of its own, once that is in vain: a restart of the
#: service would be, too.
GAVE_UP = 70


def recent_crashes(crashes: list[float], now: float) -> list[float]:
    """Return the times of the crashes within CRASH_WINDOW, plus one at `now`."""
    return [moment for moment in crashes if now - moment < CRASH_WINDOW] + [now]


class ServiceFailed(Exception):
    """A service has ended and is not restarted."""


class Service:
    """One supervised child. It ends on processes.CLOSE_SIGNAL and leaves SIGTERM to its host.

    restarts: how often it may be restarted within CRASH_WINDOW. After GAVE_UP, it never is.
    """

    def __init__(
        self, name: str, start: Callable[[], subprocess.Popen[bytes]], restarts: int = 0
    ) -> None:
        self._name = name
        self._start = start
        self._restarts = restarts
        self._crashes: list[float] = []
        self._child = self._start_without_signals()

    def _start_without_signals(self) -> subprocess.Popen[bytes]:
        with processes.stop_signals_blocked():  # blocked in the child from its first moment
            return self._start()

    @property
    def pid(self) -> int:
        """The process id of the current child."""
        return self._child.pid

    def check(self) -> None:
        """Restart the child if it has ended, or raise ServiceFailed after too many restarts."""
        code = self._child.poll()
        if code is None:
            return
        how = processes.describe_exit(code)
        if code == GAVE_UP:
            raise ServiceFailed(f"the {self._name} ended: {how}")
        self._crashes = recent_crashes(self._crashes, time.monotonic())
        if len(self._crashes) > self._restarts:
            count = f" {len(self._crashes)} times within {CRASH_WINDOW:.0f} s, last"
            raise ServiceFailed(f"the {self._name} ended{count if self._restarts else ''}: {how}")
        emit("service_restarted", service=self._name, how=how)
        self._child = self._start_without_signals()

    def close(self, poll: Callable[[], None], timeout: float = 10.0) -> None:
        """Ask the child to end and wait for it. poll: called repeatedly while waiting."""
        self._child.send_signal(processes.CLOSE_SIGNAL)
        deadline = time.monotonic() + timeout
        while self._child.poll() is None and time.monotonic() < deadline:
            poll()
        self._child.kill()
        self._child.wait()
