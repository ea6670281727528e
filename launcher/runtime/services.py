"""Supervised child processes that must live as long as the trainer: the dispatcher, a receiver."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

from launcher.runtime import processes
from launcher.runtime.event_log import emit

#: Seconds within which deaths are counted; beyond the limit, another restart would not help.
DEATH_WINDOW = 30.0


def with_this_death(deaths: list[float], now: float) -> list[float]:
    """Return the times of the deaths within DEATH_WINDOW, including one at `now`."""
    return [moment for moment in deaths if now - moment < DEATH_WINDOW] + [now]


class ServiceFailed(Exception):
    """A service has ended and is not restarted."""


class Service:
    """One supervised child. It ends on processes.CLOSE_SIGNAL and leaves SIGTERM to its host.

    restarts: how often it may be restarted within DEATH_WINDOW.
    """

    def __init__(
        self, name: str, start: Callable[[], subprocess.Popen[bytes]], restarts: int = 0
    ) -> None:
        self._name = name
        self._start = start
        self._restarts = restarts
        self._deaths: list[float] = []
        self._child = self._start_deaf()

    def _start_deaf(self) -> subprocess.Popen[bytes]:
        with processes.stop_signals_blocked():  # blocked in the child from its first moment
            return self._start()

    @property
    def pid(self) -> int:
        """The process id of the current child."""
        return self._child.pid

    def check(self) -> None:
        """Restart the child if it has ended too early, or raise ServiceFailed."""
        code = self._child.poll()
        if code is None:
            return
        how = processes.describe_exit(code)
        self._deaths = with_this_death(self._deaths, time.monotonic())
        if len(self._deaths) > self._restarts:
            again = f" {len(self._deaths)} times within {DEATH_WINDOW:.0f} s, last"
            raise ServiceFailed(f"the {self._name} ended{again if self._restarts else ''}: {how}")
        emit("service_restarted", service=self._name, how=how)
        self._child = self._start_deaf()

    def close(self, meanwhile: Callable[[], None], patience: float = 10.0) -> None:
        """Ask the child to end and wait for it. meanwhile: called repeatedly while waiting."""
        self._child.send_signal(processes.CLOSE_SIGNAL)
        deadline = time.monotonic() + patience
        while self._child.poll() is None and time.monotonic() < deadline:
            meanwhile()
        self._child.kill()
        self._child.wait()
