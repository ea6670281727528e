"""A platform whose hosts have printed known lines, each seen some time after it was printed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from launcher.client.sessions import LogEvent, LogStream


@dataclass(frozen=True, kw_only=True)
class Printed:
    """One line: who printed it when, and from when on it can be read."""

    stream: str
    at: float
    seen: float
    text: str


class PrintedLog:
    """Answers the questions about logs, as of `now`; streams are called HOST-ATTEMPT.

    fails: errors that the next questions raise, one each.
    """

    def __init__(self, lines: list[Printed], delay: float = 0.0) -> None:
        self.log_delay_seconds = delay
        self.now = 0.0
        self.fails: list[Exception] = []
        self.pages: list[int] = []
        self._lines: dict[str, list[Printed]] = defaultdict(list)
        for line in lines:
            self._lines[line.stream].append(line)

    def clock(self) -> float:
        return self.now

    def log_streams(self, job_name: str) -> list[LogStream]:
        self._may_fail()
        return [
            LogStream(name=name, host=name.rpartition("-")[0])
            for name in sorted(self._lines)
            if self._seen(name)
        ]

    def read_log(
        self, job_name: str, stream: str, position: str | None = None, limit: int = 10_000
    ) -> tuple[list[LogEvent], str]:
        self._may_fail()
        start = int(position or 0)
        page = self._seen(stream)[start : start + limit]
        self.pages.append(len(page))
        return [LogEvent(line.at, line.text) for line in page], str(start + len(page))

    def _seen(self, stream: str) -> list[Printed]:
        """A log is append-only: a line is not seen before those above it."""
        lines = self._lines[stream]
        hidden = (number for number, line in enumerate(lines) if line.seen > self.now)
        return lines[: next(hidden, len(lines))]

    def _may_fail(self) -> None:
        if self.fails:
            raise self.fails.pop()
