"""Metrics of a job from its hosts' logs: each value, and FinalMetricDataList with the last ones.

metrics.jsonl has the values in the order in which the logs had them, one RecordedMetric per line.
The platform process appends; any process reads.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from launcher.client.sessions.local.host.host_logs import log_files, read_lines
from launcher.client.sessions.local.job.job_description import RecordedMetric
from launcher.client.sessions.local.job.job_folder import JobFolder
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


#: Largest amount read at once; a reader calls again for more.
_CHUNK_BYTES = 1 << 22


def append_metrics(folder: JobFolder, metrics: Iterable[RecordedMetric]) -> None:
    """Append values; if the disk does not take them, the job continues and they are lost."""
    lines = "".join(f"{json.dumps(metric)}\n" for metric in metrics)
    with contextlib.suppress(OSError), folder.metrics.open("a") as file:
        file.write(lines)


def read_metrics(folder: JobFolder, position: int = 0) -> tuple[list[RecordedMetric], int]:
    """Return complete values after a byte position, and the position after them.

    Values that are no finite numbers are left out, as CloudWatch has none of them.
    """
    try:
        with folder.metrics.open("rb") as file:
            file.seek(position)
            chunk = file.read(_CHUNK_BYTES)
    except FileNotFoundError:  # a job without metrics so far, or an older one
        return [], position
    complete = chunk[: chunk.rfind(b"\n") + 1]
    values = [value for line in complete.splitlines() if (value := _value_of(line)) is not None]
    return values, position + len(complete)


def _value_of(line: bytes) -> RecordedMetric | None:
    """Return the value of a line; None for one that a full disk has cut short."""
    try:
        metric: Any = json.loads(line)
        is_usable = math.isfinite(metric["Value"]) and math.isfinite(metric["Timestamp"])
    except (ValueError, TypeError, KeyError):
        return None
    return cast("RecordedMetric", metric) if is_usable else None
