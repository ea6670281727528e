"""A train host's part in hang detection: forward its ranks' reports and describe what they do.

A rank that detects that it hangs (`watch`) reports it to its host. The host notifies the leader,
which asks every train host (`inquiry`). The job ends only after they have inspected the stacks of
all ranks.
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

from launcher.runtime import stacks
from launcher.runtime.event_log import emit
from launcher.runtime.failure_file import Failure
from launcher.runtime.hang_diagnosis import RankActivity
from launcher.runtime.job_host import JobHost
from launcher.runtime.reports import read_reports

#: Seconds after which a host that reported a hang fails by itself, since the leader may be frozen.
_LEADER_PATIENCE = 20.0
#: Seconds between two polls for reports, each of which lists a folder.
_LOOK_EVERY = 0.5


class HangWatch:
    """Forwards the hang reports of one train host's ranks and answers the leader's question."""

    def __init__(self, host: JobHost, reports: Path) -> None:
        self._host = host
        self._reports = reports
        self._reported: tuple[float, Failure] | None = None
        self._answered = False
        self._next_look = 0.0

    def look(self) -> None:
        """Poll for reports and questions; raise HostFailed if the leader ignores a report."""
        if self._reported is None and (report := self._first_report()) is not None:
            self._reported = (time.monotonic(), report)
            emit("rank_hangs", of_rank=report.rank, cause=report.cause)
            self._host.board.hung(report)
        if self._host.board.inquires and not self._answered:
            self._answered = True
            self._host.board.answer(self._look_at_ranks())
        if self._reported and time.monotonic() - self._reported[0] > _LEADER_PATIENCE:
            raise self._host.failure(self._reported[1].cause, rank=self._reported[1].rank)

    def _first_report(self) -> Failure | None:
        if time.monotonic() < self._next_look:
            return None
        self._next_look = time.monotonic() + _LOOK_EVERY
        cluster = self._host.environment.cluster
        for report in read_reports(self._reports, "hang-*"):
            return Failure(
                host=cluster.host,
                group=cluster.group.name,
                rank=report["rank"],
                cause=f"no progress for {report['seconds']:g} s",
            )
        return None

    def _look_at_ranks(self) -> list[RankActivity]:
        cluster, code = self._host.environment.cluster, self._host.environment.paths.code
        dumps = stacks.collect(self._reports)
        for dump in dumps:
            emit("rank_stack", of_rank=dump.rank, pid=dump.pid, stopped=dump.stopped)
            with contextlib.suppress(OSError):  # a full disk
                sys.stderr.write(dump.text)
        return [
            RankActivity(
                rank=dump.rank,
                host=cluster.host,
                group=cluster.group.name,
                words=dump.doing(code),
                waits=dump.waits,
            )
            for dump in dumps
        ]
