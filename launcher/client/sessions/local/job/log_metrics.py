"""Metrics of a job from its hosts' logs: each value, and FinalMetricDataList with the last ones."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.client.sessions.local.host.host_logs import log_files, read_lines
from launcher.client.sessions.local.job.job_description import RecordedMetric
from launcher.client.sessions.local.job.job_folder import JobFolder
from launcher.client.sessions.local.metrics_jsonl import append_metrics
from launcher.client.sessions.metric_match import MetricMatcher, metric_patterns

if TYPE_CHECKING:
    from launcher.shared import TrainingJobRequest

_PERIOD_SECONDS = 1.0


class MetricScan:
    """Reads the logs and events as they grow, so that the last value is the latest of all hosts."""

    def __init__(self, request: TrainingJobRequest, folder: JobFolder) -> None:
        self._folder = folder
        #: Notes for the user, until the caller collects them.
        self.notes: list[str] = []
        self._matcher = MetricMatcher(request, lambda note: self.notes.append(note))
        self._names = tuple(metric_patterns(request))
        self._positions: dict[Path, int] = {}
        self._last: dict[str, RecordedMetric] = {}
        self._next = 0.0

    def poll(self) -> bool:
        """Read new lines, at most once a second; return True if a value has changed."""
        if not self._matcher.reads_lines or time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + _PERIOD_SECONDS
        return self._read(is_over=False)

    def finish(self) -> list[RecordedMetric]:
        """Read the logs to their end and return the final values."""
        before: dict[Path, int] | None = None
        while self._matcher.reads_lines and before != self._positions:
            before = dict(self._positions)
            self._read(is_over=True)
        return self.values()

    def values(self) -> list[RecordedMetric]:
        """Return the FinalMetricDataList so far, with times in seconds since the epoch."""
        return [self._last[name] for name in self._names if name in self._last]

    def _read(self, *, is_over: bool) -> bool:
        """Read new lines of every log, record their values; return True if there were any."""
        found: list[RecordedMetric] = []
        for path in log_files(self._folder):
            lines, self._positions[path] = read_lines(
                path, self._positions.get(path, 0), is_over=is_over
            )
            found += [
                {"MetricName": name, "Value": value, "Timestamp": time.time()}
                for line in lines
                for name, value in self._matcher.values(line)
            ]
        if found:
            append_metrics(self._folder, found)
            self._last |= {metric["MetricName"]: metric for metric in found}
        return bool(found)
