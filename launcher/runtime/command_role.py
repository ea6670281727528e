"""The role of a command group: run any program until training ends."""

from __future__ import annotations

import subprocess
import sys
import time

from launcher.runtime import processes
from launcher.runtime.event_log import emit
from launcher.runtime.job_host import (
    FAILURE_GRACE,
    STOP_GRACE,
    HostFailed,
    JobEnded,
    JobHost,
    StopRequested,
)
from launcher.runtime.output import Output
from launcher.runtime.readiness import ReadinessProbe, create_probe
from launcher.shared import PYTHON_WORDS, CommandPart, Lifetime

#: Seconds from SIGTERM to SIGKILL when training has ended.
GRACE = 30.0


def run_role(host: JobHost) -> None:
    """Run the program of this host; return when the job has ended, well or badly.

    Raises HostFailed when the program fails, exits too early, or is not ready in time. Raises
    StopRequested when the platform stops the job, once the program has ended.
    """
    part = host.environment.command
    assert part is not None  # checked by the spec's rules and by main
    probe = create_probe(part.ready, host.environment.paths.code)
    program = _Program(host, part)
    try:
        program.wait_until_ready(probe)
        host.coordination.report_ready()
        program.watch()
    except JobEnded as ended:
        program.terminate(GRACE if ended.outcome.failure is None else FAILURE_GRACE)
    except StopRequested:
        program.terminate(STOP_GRACE - program.stop_delay)
        raise


class _Program:
    """The program of a command host, and its output.

    stop_delay: seconds that it continues after a stop request. The trainers may use it while they
        save, so a program that serves them ends when training ends.
    """

    def __init__(self, host: JobHost, part: CommandPart) -> None:
        self._host = host
        self._part = part
        self._exits_by_itself = part.lifetime is Lifetime.OWN
        self.stop_delay = 0.0 if self._exits_by_itself else STOP_GRACE - GRACE
        self._start_time = time.monotonic()
        self._output = Output()
        self._child = self._start()
        self._output.follow()
        emit("command_started", pid=self._child.pid)

    def wait_until_ready(self, probe: ReadinessProbe) -> None:
        """Wait until the program is ready; raise HostFailed if it exits first or takes too long."""
        timeout = self._timeout()
        while not probe.is_ready():
            if self._has_ended():
                raise self._failure(f"ended before it was ready: {self._exit_status()}")
            if self._age() > timeout:
                raise self._failure(f"was not ready within {timeout:.0f} s: {probe.missing}")
            self._host.pause()
        if self._has_ended() and not self._has_exited_normally():
            raise self._failure(f"ended before training did: {self._exit_status()}")
        emit("command_ready", seconds=round(self._age(), 3))

    def watch(self) -> None:
        """Watch the program until the job has ended, which raises JobEnded."""
        while not self._has_ended():
            self._host.pause()
        if not self._has_exited_normally():
            raise self._failure(f"ended before training did: {self._exit_status()}")
        emit("command_ended", how=self._exit_status())
        self._host.coordination.report_done()
        while True:
            self._host.check()
            self._host.pause()

    def terminate(self, grace: float) -> None:
        """Send SIGTERM to the program and its descendants, and SIGKILL after the grace."""
        was_alive = self._child.poll() is None
        self._host.end_children(grace)
        self._child.wait()
        self._output.drain()
        if was_alive:
            emit("command_ended", how=self._exit_status())

    def _start(self) -> subprocess.Popen[bytes]:
        first, *rest = self._part.command
        try:
            return processes.start(
                [sys.executable if first in PYTHON_WORDS else first, *rest],
                environment=self._host.variables,
                folder=self._host.environment.paths.code,
                output=self._output.write_end,
            )
        except OSError as error:
            raise self._host.failure(
                f"the command {first!r} cannot be started: {error.strerror}"
            ) from error

    def _has_ended(self) -> bool:
        """Return true if the program has ended; raise StopRequested or JobEnded when it is time."""
        self._host.check(self.stop_delay)
        if self._child.poll() is None:
            return False
        self._host.pause()  # a signal that ended the program may reach this process a moment later
        self._host.check()
        return True

    def _has_exited_normally(self) -> bool:
        return self._exits_by_itself and self._child.returncode == 0

    def _exit_status(self) -> str:
        return processes.describe_exit(self._child.returncode)

    def _age(self) -> float:
        return time.monotonic() - self._start_time

    def _timeout(self) -> float:
        start_timeout = self._host.environment.document.start_timeout
        ready = self._part.ready
        return min(start_timeout, ready.timeout) if ready else start_timeout

    def _failure(self, what: str) -> HostFailed:
        if self._child.returncode is not None:
            self._output.drain()
        return self._host.failure(f"the command {what}", detail=self._output.last_lines())
