"""A train host's part in a hang: it passes its ranks' reports on, and says what its ranks do.

A rank that waits for ever says so (`watch`), its host tells the board, the board asks every train
host (`inquiry`), and only when they have looked at the stacks of all ranks does the job end.
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

from launcher.runtime import stacks
from launcher.runtime.events import emit
from launcher.runtime.failure import Failure
from launcher.runtime.host import Host
from launcher.runtime.inquiry import Doing
from launcher.runtime.reports import read_reports

#: Seconds after which a host that reported a hang goes its own way: the leader may be frozen.
_LEADER_PATIENCE = 20.0
#: Seconds between two looks for reports: a folder is read.
_LOOK_EVERY = 0.5


class HangWatch:
    """One train host's part: it passes its ranks' reports on, and answers the board."""

    def __init__(self, host: Host, reports: Path) -> None:
        self._host = host
        self._reports = reports
        self._reported: tuple[float, Failure] | None = None
        self._answered = False
        self._next_look = 0.0

    def look(self) -> None:
        """Called often. Raises HostFailed when the leader does not react to a report."""
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

    def _look_at_ranks(self) -> list[Doing]:
        cluster, code = self._host.environment.cluster, self._host.environment.paths.code
        dumps = stacks.collect(self._reports)
        for dump in dumps:
            emit("rank_stack", of_rank=dump.rank, pid=dump.pid, stopped=dump.stopped)
            with contextlib.suppress(OSError):  # a full disk
                sys.stderr.write(dump.text)
        return [
            Doing(
                rank=dump.rank,
                host=cluster.host,
                group=cluster.group.name,
                words=dump.doing(code),
                waits=dump.waits,
            )
            for dump in dumps
        ]
