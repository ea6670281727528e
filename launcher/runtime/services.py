"""Children that must live as long as the trainer: the dispatcher, a receiver."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

from launcher.runtime import processes
from launcher.runtime.events import emit

#: What ends more often than it may within so many seconds will not get better.
DEATH_WINDOW = 30.0


def with_this_death(deaths: list[float], now: float) -> list[float]:
    """The moments of the deaths within DEATH_WINDOW, of which one is now."""
    return [moment for moment in deaths if now - moment < DEATH_WINDOW] + [now]


class ServiceFailed(Exception):
    """A service has ended, and is not started again."""


class Service:
    """One such child. It ends at processes.CLOSE_SIGNAL, and leaves SIGTERM to its host.

    restarts: how often within DEATH_WINDOW it is started again.
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
        with processes.stop_signals_blocked():  # the child is deaf to them from its first moment
            return self._start()

    @property
    def pid(self) -> int:
        return self._child.pid

    def check(self) -> None:
        """Start the child again when it has ended before its time, or raise ServiceFailed."""
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
        """Ask for the end and wait for it. meanwhile: called often."""
        self._child.send_signal(processes.CLOSE_SIGNAL)
        deadline = time.monotonic() + patience
        while self._child.poll() is None and time.monotonic() < deadline:
            meanwhile()
        self._child.kill()
        self._child.wait()
