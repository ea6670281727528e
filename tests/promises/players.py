"""The processes of a job, each a fork of this one.

This process has imported what they need; a fork enters the network of its host and runs its module
as `python -m` does. So a start takes milliseconds instead of half a second of CPU, and a schedule
can kill many.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


@dataclass(eq=False)
class Player:
    """One process. code: its exit status, once it has ended. is_condemned: its end is no news.

    is_leaving: it was asked to.
    """

    role: str
    name: str
    host: str
    pid: int
    log: Path
    code: int | None = None
    is_condemned: bool = False
    is_leaving: bool = False

    @property
    def is_living(self) -> bool:
        return self.poll() is None

    def poll(self) -> int | None:
        """Its exit status, or None while it lives."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code

    def wait(self) -> None:
        if self.code is None:
            self.code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def ends_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.is_living and time.monotonic() < deadline:
            time.sleep(0.005)
        return not self.is_living

    def send(self, number: signal.Signals) -> None:
        if self.is_living:
            os.kill(self.pid, number)

    def __str__(self) -> str:
        return f"{self.role} {self.name} (pid {self.pid})"


def start(
    role: str,
    name: str,
    *,
    host: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    enter: Callable[[str], None],
) -> Player:
    """Start `python -m COMMAND` on a host. enter: moves a process to the host's network."""
    sys.stdout.flush()
    if (pid := os.fork()) != 0:
        return Player(role, name, host, pid, log)
    code = 1
    try:
        os.setsid()
        enter(host)
        _become(command, environment, log)
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:  # noqa: BLE001 - the end of a fork, which must not go on as its parent
        traceback.print_exc()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _become(command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
    """Be as a process that was just started: its output, its variables, its arguments."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.closerange(3, 1024)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = list(command)
    sys.modules.pop("noisy_samples", None)  # the verdict's import is not the user's
    sys.path.insert(0, str(REPOSITORY))
