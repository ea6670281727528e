"""Every value of a job's metrics over time, from its hosts' logs or from CloudWatch."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from launcher.client.jobs.log_line import LogLine
from launcher.client.sessions.base import HasMetricAverages

if TYPE_CHECKING:
    from launcher.client.jobs.job import Job
    from launcher.shared.training_job_types import TrainingJobDescription

#: SDK v2 looks this much further: CloudWatch drops the seconds of the end of a search.
_AFTER_END = timedelta(minutes=1)
#: Seconds of CloudWatch's periods, as in SDK v2.
PERIOD_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class MetricRecord:
    """One value of one metric.

    time: seconds since the epoch. host: which printed the value; None for an average over the
    hosts, from CloudWatch.
    """

    metric_name: str
    value: float
    time: float
    host: str | None = None


@dataclass(frozen=True, kw_only=True)
class TimeRange:
    """The part of a job's time to read; None is the job's own start or end."""

    start: datetime | None = None
    end: datetime | None = None

    def __contains__(self, time: float) -> bool:
        first = self.start.timestamp() if self.start else -math.inf
        return first <= time <= (self.end.timestamp() if self.end else math.inf)


def metric_patterns(description: TrainingJobDescription) -> dict[str, str]:
    """Return the regular expression of each metric that a described job defines."""
    defined = description["AlgorithmSpecification"].get("MetricDefinitions", ())
    return {metric["Name"]: metric["Regex"] for metric in defined}


def records_from_logs(
    job: Job, names: Collection[str] | None = None, within: TimeRange | None = None
) -> list[MetricRecord]:
    """Return the values that the hosts have printed so far, by time."""
    patterns = {
        name: re.compile(pattern)
        for name, pattern in metric_patterns(job.describe()).items()
        if names is None or name in names
    }
    lines = job.logs() if patterns else ()
    span = within or TimeRange()
    return [r for line in lines if line.time in span for r in _records(line, patterns)]


def _records(line: LogLine, patterns: dict[str, re.Pattern[str]]) -> Iterator[MetricRecord]:
    for name, pattern in patterns.items():
        for match in pattern.finditer(line.text):
            value = _number(match)
            if value is not None:
                yield MetricRecord(metric_name=name, value=value, time=line.time, host=line.host)


def _number(match: re.Match[str]) -> float | None:
    try:
        return float(match[1])
    except (IndexError, TypeError, ValueError):  # no group, an empty one, or no number
        return None


def records_from_cloudwatch(
    job: Job,
    names: Collection[str] | None = None,
    within: TimeRange | None = None,
    period: int = PERIOD_SECONDS,
) -> list[MetricRecord]:
    """Return the metrics' averages by period, by time; none on a session without CloudWatch."""
    session = job.session
    if not isinstance(session, HasMetricAverages):
        return []
    now = job.describe()
    start, end = _time_of(now, within or TimeRange())
    found = [
        MetricRecord(metric_name=name, value=point.value, time=point.time)
        for name in (metric_patterns(now) if names is None else names)
        for point in session.metric_averages(job.name, name, start, end, period)
    ]
    return sorted(found, key=lambda record: record.time)


def _time_of(now: TrainingJobDescription, within: TimeRange) -> tuple[datetime, datetime]:
    """Return the times between which a described job trained, or those that the user gave."""
    start = within.start or now.get("TrainingStartTime") or now["CreationTime"]
    end = within.end or now.get("TrainingEndTime") or datetime.now(timezone.utc)
    return start, end + _AFTER_END
