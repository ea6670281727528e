"""The metrics of a training job in CloudWatch, which SageMaker reads from the hosts' logs.

Source: https://docs.aws.amazon.com/sagemaker/latest/dg/training-metrics.html
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from launcher.client.sessions.aws.clients import Clients
from launcher.client.sessions.aws.transient_errors import is_transient, retry
from launcher.client.sessions.base import MetricPoint
from launcher.client.sessions.retry import RetryPolicy

NAMESPACE = "/aws/sagemaker/TrainingJobs"
#: What one GetMetricStatistics may return at most.
_MOST_POINTS = 1440
_RETRY_POLICY = RetryPolicy(seconds=30)


def averages(
    clients: Clients, job_name: str, metric: str, start: datetime, end: datetime, period: int
) -> list[MetricPoint]:
    """Return the metric's average of each period (seconds) that has values, by time."""
    found = [
        MetricPoint(time=point["Timestamp"].timestamp(), value=point["Average"])
        for since, until in _windows(start, end, timedelta(seconds=period * _MOST_POINTS))
        for point in _datapoints(clients, job_name, metric, since, until, period)
    ]
    return sorted(found, key=lambda point: point.time)


def _windows(
    start: datetime, end: datetime, longest: timedelta
) -> Iterator[tuple[datetime, datetime]]:
    while start < end:
        until = min(start + longest, end)
        yield start, until
        start = until


def _datapoints(
    clients: Clients, job_name: str, metric: str, start: datetime, end: datetime, period: int
) -> list[dict[str, Any]]:
    def call() -> list[dict[str, Any]]:
        with clients.client("cloudwatch") as cloudwatch:
            answer = cloudwatch.get_metric_statistics(
                Namespace=NAMESPACE,
                MetricName=metric,
                Dimensions=[{"Name": "TrainingJobName", "Value": job_name}],
                StartTime=start,
                EndTime=end,
                Period=period,
                Statistics=["Average"],
            )
        return list(answer["Datapoints"])

    return retry(call, _RETRY_POLICY, is_transient)
