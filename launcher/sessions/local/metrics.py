"""FinalMetricDataList: the last value of each metric that the hosts' logs contain."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from launcher.sessions.local.folder import JobFolder
from launcher.sessions.local.logs import log_streams, read_lines

_PERIOD_SECONDS = 1.0


class MetricScan:
    """Reads the logs as they grow, so that "last" means last in time over all hosts."""

    def __init__(self, request: Mapping[str, Any], folder: JobFolder) -> None:
        self._folder = folder
        self._patterns = {
            metric["Name"]: re.compile(metric["Regex"])
            for metric in request["AlgorithmSpecification"].get("MetricDefinitions", ())
        }
        self._positions: dict[str, int] = {}
        self._last: dict[str, dict[str, Any]] = {}
        self._next = 0.0

    def look(self) -> bool:
        """Read what is new, once a second at most; whether a value has changed."""
        if not self._patterns or time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + _PERIOD_SECONDS
        return self._read(is_over=False)

    def finish(self) -> list[dict[str, Any]]:
        """Everything that was printed, read to its end."""
        before: dict[str, int] | None = None
        while self._patterns and before != self._positions:
            before = dict(self._positions)
            self._read(is_over=True)
        return self.values()

    def values(self) -> list[dict[str, Any]]:
        """The FinalMetricDataList so far, times in seconds since the epoch."""
        return [self._last[name] for name in self._patterns if name in self._last]

    def _read(self, *, is_over: bool) -> bool:
        found = False
        for stream in log_streams(self._folder):
            lines, self._positions[stream.name] = read_lines(
                self._folder, stream.name, self._positions.get(stream.name, 0), is_over=is_over
            )
            for line in lines:
                found |= self._match(line)
        return found

    def _match(self, line: str) -> bool:
        found = False
        for name, pattern in self._patterns.items():
            for match in pattern.finditer(line):
                value = _number(match[1])
                if value is not None:
                    self._last[name] = {
                        "MetricName": name,
                        "Value": value,
                        "Timestamp": time.time(),
                    }
                    found = True
        return found


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None
