"""The metrics of a training job in CloudWatch, which SageMaker reads from the hosts' logs.

With them, the use of each host, which SageMaker measures itself every minute.
Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/training-metrics.html and
https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html (job metrics)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from launcher.client.sessions.aws.clients import Clients
from launcher.client.sessions.aws.response_check import foreign_response
from launcher.client.sessions.aws.transient_errors import is_transient, retry
from launcher.client.sessions.base import MetricPoint
from launcher.client.sessions.retry_policy import RetryPolicy

NAMESPACE = "/aws/sagemaker/TrainingJobs"
#: What one GetMetricStatistics may return at most.
_MOST_POINTS = 1440
#: Series of one GetMetricData, which takes 500 at most and returns 100,800 points.
_MOST_SERIES = 100
#: Pages of one GetMetricData: 100 series of a 28-day job by minute are 40.
_MOST_PAGES = 1000
_RETRY_POLICY = RetryPolicy(seconds=30)
#: Seconds of the periods that CloudWatch still has of a start so long ago, and to which it rounds
#: that down; it returns nothing for others. Source: API reference, GetMetricStatistics, StartTime.
_KEPT = ((timedelta(days=63), 3600), (timedelta(days=15), 300))
_MINUTE = 60


def averages(
    clients: Clients, job_name: str, metric: str, start: datetime, end: datetime, period: int
) -> list[MetricPoint]:
    """Return the metric's average of each period (seconds) that has values, by time.

    Of the past, CloudWatch has longer periods only.
    """
    kept = _kept_seconds(start)
    period = _kept_period(period, kept)
    # CloudWatch rounds a start down: of two windows, the second would begin before the end of the
    # first, and have its last value again.
    first = start - timedelta(seconds=start.timestamp() % kept)
    found = [
        MetricPoint(time=point["Timestamp"].timestamp(), value=point["Average"])
        for since, until in _windows(first, end, timedelta(seconds=period * _MOST_POINTS))
        for point in _datapoints(clients, job_name, metric, since, until, period)
    ]
    return sorted(found, key=lambda point: point.time)


def host_averages(
    clients: Clients,
    job_name: str,
    series: Collection[tuple[str, str]],
    start: datetime,
    end: datetime,
    period: int,
) -> dict[tuple[str, str], list[MetricPoint]]:
    """Return the averages of each (host, metric) by period (seconds), by time.

    SageMaker names a host "<job>/algo-1", and has the sum over its vCPUs or GPUs, in percent. Of
    the past, CloudWatch has longer periods only.
    """
    period = _kept_period(period, _kept_seconds(start))
    wanted = list(series)
    found: dict[tuple[str, str], list[MetricPoint]] = {each: [] for each in wanted}
    for first in range(0, len(wanted), _MOST_SERIES):
        some = wanted[first : first + _MOST_SERIES]
        queries = [
            {
                "Id": f"m{number}",
                "MetricStat": {
                    "Metric": {
                        "Namespace": NAMESPACE,
                        "MetricName": metric,
                        "Dimensions": [{"Name": "Host", "Value": f"{job_name}/{host}"}],
                    },
                    "Period": period,
                    "Stat": "Average",
                },
            }
            for number, (host, metric) in enumerate(some)
        ]
        for answer in _metric_data(clients, queries, start, end):
            for result in answer["MetricDataResults"]:
                found[_asked(result["Id"], some)] += [
                    MetricPoint(time=time.timestamp(), value=value)
                    for time, value in zip(result["Timestamps"], result["Values"], strict=False)
                ]
    return {each: sorted(points, key=lambda point: point.time) for each, points in found.items()}


def _kept_seconds(start: datetime) -> int:
    age = datetime.now(timezone.utc) - start
    return next((seconds for days, seconds in _KEPT if age >= days), _MINUTE)


def _kept_period(period: int, kept: int) -> int:
    """Return the shortest period from `period` on of which CloudWatch has values."""
    return period if kept == _MINUTE else -(-period // kept) * kept


def _asked(identifier: str, series: list[tuple[str, str]]) -> tuple[str, str]:
    """Return the series that a query asked for; raise Unreachable for one that none did."""
    number = identifier.removeprefix("m")
    if not number.isdecimal() or int(number) >= len(series):
        raise foreign_response("GetMetricData", f"answers the query {identifier[:20]!r}")
    return series[int(number)]


def _metric_data(
    clients: Clients, queries: list[dict[str, Any]], start: datetime, end: datetime
) -> Iterator[dict[str, Any]]:
    """Yield the pages of one GetMetricData; raise Unreachable when its tokens do not end."""
    token: str | None = None
    seen: set[str] = set()
    while True:

        def call(more: str | None = token) -> dict[str, Any]:
            with clients.client("cloudwatch") as cloudwatch:
                page: dict[str, Any] = cloudwatch.get_metric_data(
                    MetricDataQueries=queries,
                    StartTime=start,
                    EndTime=end,
                    **({"NextToken": more} if more else {}),
                )
            return page

        page = retry(call, _RETRY_POLICY, is_transient)
        yield page
        token = page.get("NextToken")
        if not token:
            return
        if token in seen or len(seen) > _MOST_PAGES:
            raise foreign_response("GetMetricData", "has tokens that do not end")
        seen.add(token)


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
