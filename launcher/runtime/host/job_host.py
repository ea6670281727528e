"""The host as each role uses it: child processes and services, signals, and an orderly exit."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

from launcher.runtime.end.failure_file import Failure
from launcher.runtime.end.job_coordination import JobCoordination
from launcher.runtime.end.outcome_decider import JobOutcome
from launcher.runtime.end.services import Service, ServiceFailed
from launcher.runtime.host import processes
from launcher.runtime.host.environment import Environment
from launcher.runtime.host.output import Output, drain_all, hint_of_taken_port
from launcher.runtime.host.stopped_processes import StoppedProcesses
from launcher.shared import descendants, own_mask

#: SageMaker kills 120 s after SIGTERM; the remaining seconds are for our own shutdown.
STOP_GRACE = 110.0
#: Grace for the process tree when a host has failed: there is nothing worth saving.
FAILURE_GRACE = 5.0
#: Bounds of the poll interval in seconds. Between them it is a hundredth of the time waited so far,
#: since each poll evicts some CPU cache of the training.
_POLL, _LONGEST_POLL = 0.05, 0.25
#: Bytes of a variable with its name; MAX_ARG_STRLEN of Linux, without its end (execve(2)).
_LONGEST_VARIABLE = 32 * 4096 - 1


class HostFailed(Exception):
    """This host's part failed."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(str(failure))


class JobEnded(Exception):
    """The job coordination reports that the job has ended."""

    def __init__(self, outcome: JobOutcome) -> None:
        self.outcome = outcome
        super().__init__(str(outcome))


class StopRequested(Exception):
    """The platform sent SIGTERM."""


class JobHost:
    """One host's child processes, its link to the job coordination and its handling of SIGTERM."""

    def __init__(
        self, environment: Environment, coordination: JobCoordination, variables: Mapping[str, str]
    ) -> None:
        self.environment = environment
        self.coordination = coordination
        self.variables = dict(variables)  # the environment of every child
        self._stop_requested_at: float | None = None
        self._services: dict[str, Service] = {}
        self._exempt: set[int] = set()
        self._stopped = StoppedProcesses()
        self._outputs: list[Output] = []
        self._folders: list[Path] = []

    def install_signal_handlers(self) -> None:
        """Treat SIGTERM and SIGINT as stop requests; `check` then raises StopRequested."""

        def request_stop(_number: int, _frame: FrameType | None) -> None:
            self._stop_requested_at = self._stop_requested_at or time.monotonic()

        signal.signal(signal.SIGTERM, request_stop)
        signal.signal(signal.SIGINT, request_stop)

    def start(
        self, module: str, arguments: Sequence[str] = (), variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a job module as a child process, in our folder rather than the user's."""
        return self.start_program(
            [sys.executable, "-m", module, *arguments], {**self.variables, **(variables or {})}
        )

    def start_program(
        self, command: Sequence[str], variables: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start a program as a child process that prints to this host's log.

        Raises HostFailed where the system refuses, as for variables that are too long for it.
        """
        output = Output()
        folder = self.environment.paths.library
        try:
            child = output.start(command, environment=variables, folder=folder)
        except OSError as error:
            raise self.refused(command[0], error, variables) from error
        self._keep(output)
        return child

    def follow(self, output: Output) -> None:
        """Forward an output until it is over; `drain` waits for that."""
        output.follow()
        self._keep(output)

    def _keep(self, output: Output) -> None:
        self._outputs = [each for each in self._outputs if not each.is_over] + [output]

    def drain(self) -> None:
        """Wait a moment for what the children have printed last."""
        drain_all(self._outputs)

    def make_folder(self, prefix: str) -> Path:
        """Make an empty folder, which is removed with the end of this host, however it ends."""
        self._folders.append(Path(tempfile.mkdtemp(prefix=prefix)))
        return self._folders[-1]

    def remove_folders(self) -> None:
        """Remove the folders of `make_folder`, when no child uses them any more."""
        while self._folders:
            shutil.rmtree(self._folders.pop(), ignore_errors=True)

    def check(self, stop_delay: float = 0.0) -> None:
        """Raise StopRequested or JobEnded when it is time to exit.

        stop_delay: seconds that this host continues after a stop request, as others may need it.
        """
        requested_at = self._stop_requested_at
        delay = stop_delay if self.coordination.has_joined else 0.0
        if requested_at is not None and time.monotonic() - requested_at >= delay:
            raise StopRequested
        if self.coordination.outcome is not None:
            raise JobEnded(self.coordination.outcome)
        self._stopped.check()

    def wait(self, child: subprocess.Popen[bytes], poll: Callable[[], None] = lambda: None) -> int:
        """Wait for a child while the services live; return its exit status.

        poll: called repeatedly meanwhile.
        """
        self.wait_until(lambda: child.poll() is not None, poll)
        return int(child.returncode)

    def wait_until(
        self, is_done: Callable[[], bool], poll: Callable[[], None] = lambda: None
    ) -> None:
        """Wait for a condition while the services live."""
        start = time.monotonic()
        while not is_done():
            self.check()
            poll()
            self.check_services()
            waited = time.monotonic() - start
            time.sleep(min(max(_POLL, waited / 100), _LONGEST_POLL))

    def check_services(self) -> None:
        """Restart services that may be restarted; raise HostFailed for one that cannot be."""
        for service in self._services.values():
            try:
                service.check()
            except ServiceFailed as failed:  # noqa: PERF203 - each service fails on its own
                cause = f"{failed}{self._stopped.cause(service.pid)}"
                raise self.failure(cause) from failed

    def refused(self, program: str, error: OSError, variables: Mapping[str, str]) -> HostFailed:
        """Create the exception for a program that the system did not start."""
        why = f"{error.strerror}{_too_long(error, variables)}"
        return self.failure(f"{program} cannot be started: {why}")

    def pause(self) -> None:
        """Sleep for one poll interval."""
        time.sleep(_POLL)

    def failure(
        self,
        cause: str,
        *,
        rank: int | None = None,
        detail: str = "",
        is_peer_loss: bool | None = None,
    ) -> HostFailed:
        """Create the exception for a failure of this host."""
        cluster, mask = self.environment.cluster, own_mask()
        cause, detail = mask.text(cause), mask.text(detail)  # before they are cut
        return HostFailed(
            Failure(
                host=cluster.host,
                group=cluster.group.name,
                cause=cause + hint_of_taken_port(cluster, f"{cause}\n{detail}"),
                rank=rank,
                detail=detail,
                is_peer_loss=is_peer_loss,
            )
        )

    def require_package(self, package: str, user: str) -> None:
        """Raise HostFailed if a package is missing, which says more than a child's exit code."""
        if importlib.util.find_spec(package) is None:
            raise self.failure(
                f"{user} needs {package}, which {sys.executable} does not have: use an image that "
                "has it (for local jobs, an environment)"
            )

    def start_service(
        self,
        name: str,
        module: str,
        arguments: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        *,
        restarts: int = 0,
    ) -> None:
        """Start a module that must live as long as the trainer."""
        self._services[name] = Service(
            name, lambda: self.start(module, arguments, variables), restarts
        )

    def exempt_from_sigterm(self, child: subprocess.Popen[bytes]) -> None:
        """Send no SIGTERM to a child and its process group, which end when the workers have."""
        self._exempt.add(child.pid)

    def close_service(self, name: str) -> None:
        """End the service of that name, if there is one, and keep the others running."""

        def poll() -> None:
            self.check_services()
            self.pause()

        if service := self._services.pop(name, None):
            service.close(poll)

    def end_children(self, grace: float) -> None:
        """End every process below this one, including those in other sessions."""
        self._end_workers(grace)
        self._close_services()
        self._end_workers(0.0)  # what the services have left

    def stop(self) -> None:
        """Stop as requested: let the scripts of this host and of the other hosts save their work.

        Services end last, when no train host reads data any more or when the time is up. In the
        latter case the other hosts were not asked to stop, and this host fails the job.
        """
        deadline = time.monotonic() + STOP_GRACE
        self._end_workers(STOP_GRACE)
        self.coordination.report_done()
        while self._services and self.coordination.outcome is None and time.monotonic() < deadline:
            with contextlib.suppress(HostFailed):  # the host stops in any case
                self.check_services()
            self.pause()
        if self._services and self.coordination.outcome is None:
            failure = self.failure(
                "it was asked to stop (SIGTERM), but the others continued"
            ).failure
            self.coordination.report_failure(failure)
            failure.write(self.environment.paths)
        self.wait_for_peers(FAILURE_GRACE)
        self._close_services()
        self._end_workers(0.0)  # what the services have left

    def wait_for_peers(self, timeout: float) -> None:
        """On the leader, wait until the end was sent to every host.

        Otherwise a host that starts late would wait, and be billed, for a leader that has exited.
        """
        deadline = time.monotonic() + timeout
        while not self.coordination.is_end_sent() and time.monotonic() < deadline:
            if self._stop_requested_at is not None and timeout > STOP_GRACE:
                return
            self.pause()

    def _end_workers(self, grace: float) -> None:
        """End all but the services and the processes that these have started, which they end."""
        services = {service.pid for service in self._services.values()}
        processes.end_tree(
            lambda: descendants(os.getpid(), without=services),
            grace=grace,
            exempt=self._exempt,
        )

    def _close_services(self) -> None:
        # The receiver first, since it still sends messages to the dispatcher.
        for name in reversed(list(self._services)):
            self._services.pop(name).close(self.pause)


def _too_long(error: OSError, variables: Mapping[str, str]) -> str:
    """Return the words on the longest variable, if variables are too long for the system."""
    name = max(variables, key=lambda each: len(os.fsencode(variables[each])), default="")
    size = len(os.fsencode(f"{name}={variables.get(name, '')}"))
    if error.errno != errno.E2BIG or size <= _LONGEST_VARIABLE:
        return ""
    return (
        f": the variable {name} has {size:,} bytes, and Linux takes {_LONGEST_VARIABLE:,}; put "
        "what is long in the hyperparameters into a file of the code or of a channel"
    )
