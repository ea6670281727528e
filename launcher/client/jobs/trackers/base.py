"""The interface of a tracker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from launcher.client.jobs.metric_records import MetricRecord


class Tracker(Protocol):
    """Writes the metrics of one job; any method may raise; the job is not affected."""

    def log(self, records: Sequence[MetricRecord]) -> None:
        """Write values, by time; each has a step."""

    def close(self, status: str | None) -> None:
        """End the tracking. status: the job's TrainingJobStatus; None if the job goes on."""
