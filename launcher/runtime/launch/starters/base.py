"""The base of the starters, each of which starts a train host's ranks in one way."""

from __future__ import annotations

import contextlib
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from launcher.runtime.end.hang_reports import HangReporter
from launcher.runtime.host import processes
from launcher.runtime.host.event_log import emit
from launcher.runtime.host.job_host import HostFailed, JobHost
from launcher.runtime.host.output import NamedOutput, drain_all, rank_pipe
from launcher.runtime.host.report_files import REPORTS_VARIABLE, read_reports
from launcher.runtime.launch.rank import HANG_VARIABLE

#: Seconds after which the start of ranks is worth a word: torchrun imports torch first.
_SLOW_START = 2.0


class Starter(ABC):
    """A way to start the ranks of a train host.

    host: this host. reports: the folder in which the ranks write how they ended.
    """

    def __init__(self, host: JobHost, reports: Path) -> None:
        self.host = host
        self.reports = reports

    @abstractmethod
    def run(self, program: Sequence[str]) -> None:
        """Run this host's ranks to their end; raise HostFailed, JobEnded or StopRequested.

        program: the module that each rank runs, and its arguments.
        """

    def variables(self) -> dict[str, str]:
        """Return the variables of this host's ranks, beside those of every program here."""
        return {}

    @abstractmethod
    def exits(self, code: int) -> Mapping[int, int]:
        """Return the exit status of each rank of this host. code: the exit status of the child."""

    def run_child(
        self, module: str, arguments: Sequence[str], variables: Mapping[str, str]
    ) -> None:
        """Run a module that ends after this host's ranks; raise HostFailed if it fails."""
        hang_timeout = self.host.environment.document.trainer.hang_timeout
        reporting = {REPORTS_VARIABLE: str(self.reports), HANG_VARIABLE: str(hang_timeout)}
        with self._rank_outputs():
            child = self.host.start(module, arguments, {**reporting, **variables})
            hangs, start = HangReporter(self.host, self.reports), self._report_slow_start()

            def poll() -> None:
                hangs.poll()
                next(start, None)

            code = self.host.wait(child, poll)
        if code != 0:
            self.host.check_services()  # a service that ended is the cause of the ranks' errors
            raise self.failure(code)

    def _report_slow_start(self) -> Iterator[None]:
        """Report at most once that the ranks are being started; each step is one look at them."""
        if self.host.environment.document.trainer.entry_point.endswith(".sh"):
            return  # which is no rank of ours
        begin = time.monotonic()
        is_reported = False
        while not any(self.reports.glob("stack-*")):
            if not is_reported and time.monotonic() - begin > _SLOW_START:
                is_reported = True
                emit("host_phase", doing="starting its ranks")
            yield
        if is_reported:
            emit("host_phase", doing="")

    @contextlib.contextmanager
    def _rank_outputs(self) -> Iterator[None]:
        """Give each rank of this host a pipe of its own, and forward all until the block ends."""
        count = self.host.environment.document.trainer.processes_per_host
        first = self.host.environment.cluster.host_rank * count
        pipes = [
            NamedOutput(rank_pipe(self.reports, number), f"rank {first + number}")
            for number in range(count)
        ]
        for pipe in pipes:
            self.host.follow(pipe)
        try:
            yield
        finally:
            drain_all(pipes)

    def failure(self, code: int) -> HostFailed:
        """Return the first cause among the ranks: a signal, then an own error, then a peer loss."""
        failures = [
            self.host.failure(
                report["cause"],
                rank=report["rank"],
                detail=report["detail"],
                is_peer_loss=report["is_peer_loss"],
            )
            for report in sorted(
                read_reports(self.reports, "rank-*"), key=lambda report: report["time"]
            )
        ]
        reported = {error.failure.rank for error in failures}
        unreported = [
            (status, self.host.failure(processes.describe_exit(status), rank=rank))
            for rank, status in sorted(self.exits(code).items())
            if rank not in reported and status != 0
        ]
        # torchrun ends the other ranks with SIGTERM, so SIGTERM counts only without another cause.
        causes = [error for status, error in unreported if status != -signal.SIGTERM] + failures
        causes = sorted(causes, key=lambda error: error.failure.is_secondary)
        causes += [error for _, error in unreported]
        how = processes.describe_exit(code)
        return (causes or [self.host.failure(f"the trainer ended: {how}")])[0]

    def reported_exits(self, pattern: str) -> dict[int, int]:
        """Return the exit statuses in the reports whose names match a pattern."""
        return {
            int(rank): status
            for exits in read_reports(self.reports, pattern)
            for rank, status in exits.items()
        }
