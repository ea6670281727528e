"""A train host's part in hang detection: forward its ranks' reports and describe what they do.

A rank that detects that it hangs (`hang_watchdog`) reports it to its host. The host notifies the
leader, which asks every train host what its ranks are doing (`hang_diagnosis`). The job ends only
after the hosts have inspected the stacks of all ranks.
"""

from __future__ import annotations

import time
from pathlib import Path

from launcher.runtime.end import stacks
from launcher.runtime.end.failure_file import Failure
from launcher.runtime.end.hang_diagnosis import RankActivity
from launcher.runtime.host.event_log import emit, emit_text
from launcher.runtime.host.job_host import JobHost
from launcher.runtime.host.report_files import read_reports

#: Seconds after which a host that reported a hang fails by itself, since the leader may be frozen.
_LEADER_TIMEOUT = 20.0
#: Seconds between two polls for reports, each of which lists a folder.
_POLL_INTERVAL = 0.5


class HangReporter:
    """Forwards hang reports of a train host's ranks, and reports their activity when asked."""

    def __init__(self, host: JobHost, reports: Path) -> None:
        self._host = host
        self._reports = reports
        self._reported: tuple[float, Failure] | None = None
        self._answered = False
        self._reported_silent_exits: set[int] = set()
        self._next_poll = 0.0

    def poll(self) -> None:
        """Poll for reports and requests; raise HostFailed if the leader ignores a report."""
        is_due = time.monotonic() >= self._next_poll
        if is_due:
            self._next_poll = time.monotonic() + _POLL_INTERVAL
            self._report_silent_exits()
        if is_due and self._reported is None and (report := self._first_report()) is not None:
            self._reported = (time.monotonic(), report)
            emit("rank_hangs", of_rank=report.rank, cause=report.cause)
            self._host.coordination.report_hang(report)
        if self._host.coordination.is_activity_requested and not self._answered:
            self._answered = True
            self._host.coordination.report_activity(self._inspect_ranks())
        if self._reported and time.monotonic() - self._reported[0] > _LEADER_TIMEOUT:
            raise self._host.failure(self._reported[1].cause, rank=self._reported[1].rank)

    def _first_report(self) -> Failure | None:
        for report in read_reports(self._reports, "hang-*"):
            return self._failure(report["rank"], f"no progress for {report['seconds']:g} s")
        return None

    def _report_silent_exits(self) -> None:
        """Report the ranks that have ended with 0 while others may wait for them."""
        for report in read_reports(self._reports, "left-*"):
            if (rank := report["rank"]) not in self._reported_silent_exits:
                self._reported_silent_exits.add(rank)
                left = self._failure(rank, report["how"])
                self._host.coordination.report_silent_exit(left)

    def _failure(self, rank: int, cause: str) -> Failure:
        """Return the failure of a rank of this host."""
        cluster = self._host.environment.cluster
        return Failure(host=cluster.host, group=cluster.group.name, rank=rank, cause=cause)

    def _inspect_ranks(self) -> list[RankActivity]:
        cluster, code = self._host.environment.cluster, self._host.environment.paths.code
        dumps = stacks.collect_dumps(self._reports)
        for dump in dumps:
            emit_text(
                "rank_stack", dump.text, of_rank=dump.rank, pid=dump.pid, stopped=dump.stopped
            )
        return [
            RankActivity(
                rank=dump.rank,
                host=cluster.host,
                group=cluster.group.name,
                description=dump.describe(code),
                is_waiting=dump.is_waiting,
            )
            for dump in dumps
        ]
