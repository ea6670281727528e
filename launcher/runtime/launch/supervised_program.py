"""A supervised program of a host: its group's command, or the script where no starter runs it.

A script group runs the job's entry point on every host, as SageMaker's toolkit does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from launcher.runtime.end.outcome_decider import JobOutcome
from launcher.runtime.host import processes
from launcher.runtime.host.environment import Environment
from launcher.runtime.host.event_log import emit
from launcher.runtime.host.hyperparameters import as_arguments
from launcher.runtime.host.job_host import (
    FAILURE_GRACE,
    STOP_GRACE,
    HostFailed,
    JobEnded,
    JobHost,
    StopRequested,
)
from launcher.runtime.host.output import Output, TakenPortNotice
from launcher.runtime.host.report_files import REPORTS_VARIABLE, read_reports
from launcher.runtime.launch import train_role
from launcher.shared import PYTHON_WORDS, Lifetime, Ready, descendants

#: Seconds from SIGTERM to SIGKILL when training has ended.
GRACE = 30.0


@dataclass(frozen=True, kw_only=True)
class ProgramSettings:
    """A program of a host, and when it is ready and may end.

    noun: its name in messages and events. words: the program and its arguments.
    """

    noun: str
    words: Sequence[str]
    folder: Path
    ready: Ready | None
    lifetime: Lifetime
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def event(self) -> str:
        """The first word of its events."""
        return self.noun.replace(" ", "_")


def run_program(
    host: JobHost,
    settings: ProgramSettings,
    find_failure: Callable[[], HostFailed | None] = lambda: None,
) -> JobOutcome:
    """Run a program of this host until the job has ended; return the job's outcome.

    find_failure: returns what the program itself has reported of its failure.

    Raises HostFailed when the program fails, exits before it is ready, or is not ready in time.
    Raises StopRequested when the platform stops the job, once the program has ended.
    """
    probe = create_probe(settings.ready, host.environment.paths.code)
    program = _Program(host, settings, find_failure)
    try:
        program.wait_until_ready(probe)
        host.coordination.report_ready()
        program.watch()
    except JobEnded as ended:
        program.terminate(GRACE if ended.outcome.failure is None else FAILURE_GRACE)
        return ended.outcome
    except StopRequested:
        program.terminate(STOP_GRACE - program.stop_delay)
        raise


class _Program:
    """The running program and its output.

    stop_delay: seconds that it continues after a stop request. The trainers may use it while they
        save, so a program that serves them ends when training ends.
    """

    def __init__(
        self,
        host: JobHost,
        settings: ProgramSettings,
        find_failure: Callable[[], HostFailed | None],
    ) -> None:
        self._host = host
        self._settings = settings
        self._find_failure = find_failure
        exits_by_itself = settings.lifetime is Lifetime.OWN
        self.stop_delay = 0.0 if exits_by_itself else STOP_GRACE - GRACE
        self._start_time = time.monotonic()
        self._output = Output(watch=TakenPortNotice(host.environment.cluster))
        self._child = self._start()
        emit(f"{settings.event}_started", pid=self._child.pid)

    def wait_until_ready(self, probe: ReadinessProbe) -> None:
        """Wait until the program is ready; raise HostFailed if it exits first or takes too long."""
        timeout = self._timeout()
        while not probe.is_ready():
            if self._has_ended():
                raise self._failure(f"ended before it was ready: {self._exit_status()}")
            if self._age() > timeout:
                raise self._failure(f"was not ready within {timeout:.0f} s: {probe.missing}")
            self._host.pause()
        self._check_exit()
        emit(f"{self._settings.event}_ready", seconds=round(self._age(), 3))

    def watch(self) -> NoReturn:
        """Watch the program until the job has ended, which raises JobEnded.

        A program that has exited with 0 is done: the job no longer needs it.
        """
        while not self._has_ended():
            self._host.pause()
        self._check_exit()
        emit(f"{self._settings.event}_ended", how=self._exit_status())
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
            emit(f"{self._settings.event}_ended", how=self._exit_status())

    def _start(self) -> subprocess.Popen[bytes]:
        settings = self._settings
        variables = {**self._host.variables, **settings.variables}
        try:
            return self._output.start(settings.words, environment=variables, folder=settings.folder)
        except OSError as error:
            program = f"the {settings.noun} {settings.words[0]!r}"
            raise self._host.refused(program, error, variables) from error

    def _has_ended(self) -> bool:
        """Return true if the program has ended; raise StopRequested or JobEnded when it is time."""
        self._host.check(self.stop_delay)
        if self._child.poll() is None:
            return False
        self._host.pause()  # a signal that ended the program may reach this process a moment later
        self._host.check()
        return True

    def _check_exit(self) -> None:
        """Raise HostFailed if the program has ended with anything but 0."""
        if self._child.poll() is not None and self._has_ended() and self._child.returncode != 0:
            raise self._failure(f"ended before training did: {self._exit_status()}")

    def _exit_status(self) -> str:
        return processes.describe_exit(self._child.returncode)

    def _age(self) -> float:
        return time.monotonic() - self._start_time

    def _timeout(self) -> float:
        start_timeout = self._host.environment.document.start_timeout
        ready = self._settings.ready
        return min(start_timeout, ready.timeout) if ready else start_timeout

    def _failure(self, what: str) -> HostFailed:
        if self._child.returncode is not None:
            self._output.drain()
            if reported := self._find_failure():
                return reported
        return self._host.failure(
            f"the {self._settings.noun} {what}", detail=self._output.last_lines()
        )


#: The state LISTEN in /proc/net/tcp (include/net/tcp_states.h).
_LISTEN = "0A"


@dataclass(frozen=True, kw_only=True)
class ReadinessProbe:
    """A readiness check. missing: what the program has not done while it is not ready."""

    is_ready: Callable[[], bool]
    missing: str


def create_probe(ready: Ready | None, folder: Path) -> ReadinessProbe:
    """Create the probe. Call it before the program starts as a descendant of this process.

    folder: the base of a relative path.
    """
    if ready is None:
        return ReadinessProbe(is_ready=lambda: True, missing="")
    if ready.port is not None:
        return _port_probe(ready.port)
    if ready.file is not None:
        return _file_probe(folder / ready.file)
    return _time_probe(ready.seconds or 0)


def _port_probe(port: int) -> ReadinessProbe:
    def is_ready() -> bool:
        listeners = _listeners(port)
        return bool(listeners) and not listeners.isdisjoint(_sockets(descendants(os.getpid())))

    return ReadinessProbe(is_ready=is_ready, missing=f"it does not listen on port {port}")


def _file_probe(path: Path) -> ReadinessProbe:
    before = _file_version(path)  # a file left by an earlier run does not count
    return ReadinessProbe(
        is_ready=lambda: _file_version(path) not in (None, before),
        missing=f"it has not written {path}",
    )


def _time_probe(seconds: int) -> ReadinessProbe:
    start = time.monotonic()
    return ReadinessProbe(
        is_ready=lambda: time.monotonic() - start >= seconds,
        missing=f"it has not run for {seconds} s",
    )


def _file_version(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _listeners(port: int) -> set[str]:
    """Return the inodes of the sockets that listen on a port, on any address.

    Hosts that share a machine share this list, and a connection could reach another host's program.
    """
    return {
        fields[9]
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for fields in _rows(Path(table))
        if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port
    }


def _rows(table: Path) -> Iterator[list[str]]:
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:  # a kernel without IPv6
        return
    yield from (line.split() for line in lines)


def _sockets(pids: Iterable[int]) -> Iterator[str]:
    """Yield the inodes of the sockets that processes hold."""
    for pid in pids:
        for entry in _entries(Path(f"/proc/{pid}/fd")):
            if entry.startswith("socket:["):
                yield entry[len("socket:[") : -1]


def _entries(folder: Path) -> list[str]:
    """Return the targets of a folder's links; a process or a link may vanish at any time."""
    try:
        return [os.readlink(entry) for entry in folder.iterdir()]  # noqa: PTH115 - not a path
    except OSError:
        return []


def run_command(host: JobHost) -> None:
    """Run the command of this host; return when the job has ended, well or badly.

    Raises what `run_program` raises.
    """
    part = host.environment.command
    assert part is not None  # checked by the spec's rules and by main
    first, *rest = part.command
    values = host.environment.hyperparameters if part.pass_hyperparameters else {}
    words = [sys.executable if first in PYTHON_WORDS else first, *rest, *as_arguments(values)]
    folder = host.environment.paths.code
    settings = ProgramSettings(
        noun="command", words=words, folder=folder, ready=part.ready, lifetime=part.lifetime
    )
    run_program(host, settings)


def run_script(host: JobHost) -> None:
    """Run the script: by the starter on the distribution's group, else as plain Python.

    Raises what `train_role.run_role` and `run_program` raise.
    """
    environment = host.environment
    if environment.starts_ranks:
        train_role.run_role(host)
        return
    if environment.cluster.is_in_train_group:
        train_role.wait_for_programs(host)
    reports = Path(tempfile.mkdtemp(prefix="launcher-reports-"))
    try:
        outcome = run_program(host, _settings(host, reports), lambda: _reported(host, reports))
    finally:
        shutil.rmtree(reports, ignore_errors=True)
    if outcome.failure is not None and environment.script.lifetime is Lifetime.OWN:
        raise JobEnded(outcome)  # its own work was cut short


def _settings(host: JobHost, reports: Path) -> ProgramSettings:
    environment = host.environment
    entry_point = environment.document.trainer.entry_point
    script = environment.paths.code / entry_point
    if not script.is_file():
        raise host.failure(f"the entry point {entry_point} is not in the bundle")
    starter = [sys.executable, "-m", "launcher.runtime.launch.rank"]
    return ProgramSettings(
        noun="script",
        words=[*starter, str(script), *as_arguments(environment.hyperparameters)],
        folder=environment.paths.library,
        ready=environment.script.ready,
        lifetime=environment.script.lifetime,
        variables={REPORTS_VARIABLE: str(reports), **_rendezvous_variables(environment)},
    )


def _rendezvous_variables(environment: Environment) -> dict[str, str]:
    """Return where ranks meet, as the PyTorch image sets it for every script."""
    return {
        "MASTER_ADDR": environment.cluster.address(environment.master),
        "MASTER_PORT": str(environment.ports.rendezvous),
    }


def _reported(host: JobHost, reports: Path) -> HostFailed | None:
    """Return the failure that the script's process has reported; None if there is no report."""
    for report in read_reports(reports, "rank-*"):
        return host.failure(
            report["cause"], detail=report["detail"], is_peer_loss=report["is_peer_loss"]
        )
    return None
