"""What all roles share: children that are watched, signals that are obeyed, one clear end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from types import FrameType

from launcher.runtime import processes
from launcher.runtime.board import Board, End
from launcher.runtime.environment import Environment
from launcher.runtime.failure import Failure
from launcher.runtime.variables import child_environment

#: SageMaker kills 120 s after SIGTERM; what is left of that is for our own end.
STOP_GRACE = 110.0
#: Grace for the tree when this or another host has failed: nothing of it is worth saving.
FAILURE_GRACE = 5.0
_POLL = 0.05


class HostFailed(Exception):
    """This host's part failed."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(str(failure))


class JobOver(Exception):
    """The board says that the job has ended."""

    def __init__(self, end: End) -> None:
        self.end = end
        super().__init__(str(end))


class StopRequested(Exception):
    """The platform sent SIGTERM."""


class Host:
    """One host's children, its place on the board, and its obedience to SIGTERM."""

    def __init__(self, environment: Environment, board: Board) -> None:
        self.environment = environment
        self.board = board
        self.variables = child_environment(environment)
        self._stop = threading.Event()

    def obey_signals(self) -> None:
        """SIGTERM and SIGINT ask for the end; the watch loop raises StopRequested."""

        def ask(_number: int, _frame: FrameType | None) -> None:
            self._stop.set()

        signal.signal(signal.SIGTERM, ask)
        signal.signal(signal.SIGINT, ask)

    def start(
        self, module: str, arguments: Sequence[str] = (), variables: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a module of the job world as a child; its folder is ours, not the user's."""
        return processes.start(
            [sys.executable, "-m", module, *arguments],
            environment={**self.variables, **(variables or {})},
            folder=self.environment.paths.library,
        )

    def check(self) -> None:
        """Raise StopRequested or JobOver when it is time to leave."""
        if self._stop.is_set():
            raise StopRequested
        if self.board.end is not None:
            raise JobOver(self.board.end)

    def wait(self, child: subprocess.Popen[bytes], others: Sequence[Service] = ()) -> int:
        """Wait for a child while its services live; returns its exit status."""
        while (code := child.poll()) is None:
            self.check()
            for service in others:
                service.check(self)
            time.sleep(_POLL)
        return code

    def pause(self) -> None:
        time.sleep(_POLL)

    def failure(self, cause: str, *, rank: int | None = None, detail: str = "") -> HostFailed:
        cluster = self.environment.cluster
        return HostFailed(
            Failure(
                host=cluster.host, group=cluster.group.name, cause=cause, rank=rank, detail=detail
            )
        )

    def end_children(self, grace: float) -> None:
        """End everything below this process, also what moved to another session."""
        processes.end_tree(lambda: processes.descendants(os.getpid()), grace=grace)


class Service:
    """A child that must live as long as the trainer: the dispatcher, a receiver."""

    def __init__(self, name: str, child: subprocess.Popen[bytes]) -> None:
        self._name = name
        self._child = child

    def check(self, host: Host) -> None:
        """Raise HostFailed when the child has ended before its time."""
        code = self._child.poll()
        if code is not None:
            raise host.failure(f"the {self._name} ended: {processes.describe_exit(code)}")

    def close(self, patience: float = 10.0) -> None:
        """Ask for the end and wait for it."""
        self._child.send_signal(signal.SIGTERM)
        try:
            self._child.wait(patience)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
