"""The base of all roles: supervised child processes, signal handling and one clear end."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import FrameType

from launcher.runtime import processes
from launcher.runtime.environment import Environment
from launcher.runtime.failure_file import Failure
from launcher.runtime.job_coordination import JobCoordination
from launcher.runtime.outcome_decider import HostEnd
from launcher.runtime.services import Service, ServiceFailed
from launcher.shared.process_table import descendants

#: SageMaker kills 120 s after SIGTERM; the remaining seconds are for our own shutdown.
STOP_GRACE = 110.0
#: Grace for the process tree when a host has failed: there is nothing worth saving.
FAILURE_GRACE = 5.0
#: Bounds of the poll interval in seconds. Between them it is a hundredth of the time waited so far,
#: since each poll takes some CPU cache from the training.
_POLL, _LONGEST_POLL = 0.05, 0.25


class HostFailed(Exception):
    """This host's part failed."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(str(failure))


class JobEnded(Exception):
    """The job coordination reports that the job has ended."""

    def __init__(self, end: HostEnd) -> None:
        self.end = end
        super().__init__(str(end))


class StopRequested(Exception):
    """The platform sent SIGTERM."""


class JobHost:
    """One host's child processes, its link to the job coordination and its handling of SIGTERM."""

    def __init__(
        self, environment: Environment, board: JobCoordination, variables: Mapping[str, str]
    ) -> None:
        self.environment = environment
        self.board = board
        self.variables = dict(variables)  # the environment of every child
        self._stopping_since: float | None = None
        self._services: dict[str, Service] = {}
        self._spared: set[int] = set()

    def obey_signals(self) -> None:
        """Treat SIGTERM and SIGINT as stop requests; `check` then raises StopRequested."""

        def ask(_number: int, _frame: FrameType | None) -> None:
            self._stopping_since = self._stopping_since or time.monotonic()

        signal.signal(signal.SIGTERM, ask)
        signal.signal(signal.SIGINT, ask)

    def start(
        self, module: str, arguments: Sequence[str] = (), variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a job module as a child process, in our folder rather than the user's."""
        return processes.start(
            [sys.executable, "-m", module, *arguments],
            environment={**self.variables, **(variables or {})},
            folder=self.environment.paths.library,
        )

    def check(self, patience: float = 0.0) -> None:
        """Raise StopRequested or JobOver when it is time to exit.

        patience: seconds that this host continues after a stop request.
        """
        since = self._stopping_since
        if since is not None and time.monotonic() - since >= patience:
            raise StopRequested
        if self.board.end is not None:
            raise JobEnded(self.board.end)

    def wait(self, child: subprocess.Popen[bytes], look: Callable[[], None] = lambda: None) -> int:
        """Wait for a child while the services live; return its exit status.

        look: called repeatedly, to watch other things meanwhile.
        """
        self.wait_until(lambda: child.poll() is not None, look)
        return int(child.returncode)

    def wait_until(
        self, is_over: Callable[[], bool], look: Callable[[], None] = lambda: None
    ) -> None:
        """Wait for a condition while the services live."""
        since = time.monotonic()
        while not is_over():
            self.check()
            look()
            self.check_services()
            waited = time.monotonic() - since
            time.sleep(min(max(_POLL, waited / 100), _LONGEST_POLL))

    def check_services(self) -> None:
        """Restart services that may be restarted; raise HostFailed for one that ended for good."""
        for service in self._services.values():
            try:
                service.check()
            except ServiceFailed as failed:  # noqa: PERF203 - each service has its own end
                raise self.failure(str(failed)) from failed

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
        cluster = self.environment.cluster
        return HostFailed(
            Failure(
                host=cluster.host,
                group=cluster.group.name,
                cause=cause,
                rank=rank,
                detail=detail,
                is_peer_loss=is_peer_loss,
            )
        )

    def need(self, package: str, what: str) -> None:
        """Raise HostFailed here rather than let a child fail with a bare exit code."""
        if importlib.util.find_spec(package) is None:
            raise self.failure(
                f"{what} needs {package}, which {sys.executable} does not have: use an image (on "
                "this machine, an environment) that has it"
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

    def spare(self, child: subprocess.Popen[bytes]) -> None:
        """Send no SIGTERM to a child and its process group, which end when the workers have."""
        self._spared.add(child.pid)

    def close_service(self, name: str) -> None:
        """End the service of that name, if there is one, while the others live."""

        def look() -> None:
            self.check_services()
            self.pause()

        if service := self._services.pop(name, None):
            service.close(look)

    def end_children(self, grace: float) -> None:
        """End every process below this one, including those in other sessions."""
        self._end_workers(grace)
        self._close_services()

    def stop(self) -> None:
        """Obey the stop request: let the scripts of this host and the other hosts save their work.

        Services end last, when no train host reads data any more or when the time is over. In the
        latter case the others were not asked to stop, and this host fails the job.
        """
        deadline = time.monotonic() + STOP_GRACE
        self._end_workers(STOP_GRACE)
        self.board.done()
        while self._services and self.board.end is None and time.monotonic() < deadline:
            with contextlib.suppress(HostFailed):  # the host stops in any case
                self.check_services()
            self.pause()
        if self._services and self.board.end is None:
            lone = self.failure("it was asked to stop (SIGTERM), and the others went on").failure
            self.board.failed(lone)
            lone.write(self.environment.paths)
        self.say_goodbye(FAILURE_GRACE)
        self._close_services()

    def say_goodbye(self, patience: float) -> None:
        """Wait, on the leader, until every host knows the end.

        A host that starts late would otherwise wait for a leader that has gone, and be billed.
        """
        deadline = time.monotonic() + patience
        while not self.board.everyone_knows() and time.monotonic() < deadline:
            if self._stopping_since is not None and patience > STOP_GRACE:
                return
            self.pause()

    def _end_workers(self, grace: float) -> None:
        services = {service.pid for service in self._services.values()}
        processes.end_tree(
            lambda: [pid for pid in descendants(os.getpid()) if pid not in services],
            grace=grace,
            spared=self._spared,
        )

    def _close_services(self) -> None:
        # The receiver first, since it has final messages for the dispatcher.
        for name in reversed(list(self._services)):
            self._services.pop(name).close(self.pause)
