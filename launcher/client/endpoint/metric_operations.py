"""The metrics of jobs in CloudWatch; brought up to date when CloudWatch is asked.

They live in the memory of one process (as all of moto's state does), and are published again
after a restart.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from datetime import datetime, timezone
from pathlib import Path

from moto.cloudwatch.models import Dimension, MetricDatum, cloudwatch_backends

from launcher.client.endpoint.job_registry import JobRegistry
from launcher.client.sessions import JobFolder, JobRoot, RecordedMetric, read_metrics
from launcher.errors import JobNotFound

#: Source: "Monitor training jobs using CloudWatch metrics", SageMaker developer guide.
NAMESPACE = "/aws/sagemaker/TrainingJobs"
_DIMENSION = "TrainingJobName"


class CloudWatchMetrics:
    """Publishes the values of metric definitions, one data point for each match in a log."""

    def __init__(self, root: Path, registry: JobRegistry, account: str) -> None:
        self._store = JobRoot(root)
        self._registry = registry
        self._account = account
        self._lock = threading.Lock()
        self._positions: dict[str, int] = defaultdict(int)

    def publish(self, region: str) -> None:
        """Publish what the jobs of a region have measured since the last call."""
        with self._lock:
            for job in self._registry.names(region):
                try:
                    folder = self._store.find(job)
                except JobNotFound:
                    continue
                self._publish(folder, region)

    def delete(self, job: str, region: str) -> None:
        """Drop the metrics of a deleted job, as a later job may have its name."""
        own = Dimension(_DIMENSION, job)
        with self._lock:
            self._positions.pop(job, None)
            data = cloudwatch_backends[self._account][region].metric_data
            data[:] = [
                each for each in data if each.namespace != NAMESPACE or own not in each.dimensions
            ]

    def _publish(self, folder: JobFolder, region: str) -> None:
        data = cloudwatch_backends[self._account][region].metric_data
        while True:
            metrics, end = read_metrics(folder, self._positions[folder.name])
            if end == self._positions[folder.name]:
                return
            data += [_data_point(folder.name, metric) for metric in metrics]
            self._positions[folder.name] = end


def _data_point(job: str, metric: RecordedMetric) -> MetricDatum:
    return MetricDatum(
        NAMESPACE,
        metric["MetricName"],
        metric["Value"],
        [{"Name": _DIMENSION, "Value": job}],
        # moto's times are in UTC and naive.
        datetime.fromtimestamp(metric["Timestamp"], tz=timezone.utc).replace(tzinfo=None),
        "None",
    )
