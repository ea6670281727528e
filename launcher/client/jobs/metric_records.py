"""Every value of a job's metrics over time, from its hosts' logs or from CloudWatch.

Launcher's own events have figures of the use of hosts, of training and of data. Their names are
"<part>/<figure>", which TensorBoard and MLflow show by part:

    host/cpu  host/gpu                             share in use, 0 to 1, over all CPUs or GPUs
    host/memory_bytes  host/gpu_memory_bytes       in use
    host/received_bytes_per_second  host/sent_bytes_per_second
    train/loss  train/samples_per_second           of a rank of a task
    train/data_wait_seconds                        per step
    validation/<metric>                            means over all ranks
    data/steps_per_second  data/wait_share         of the first rank, in its epoch so far
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from launcher.client.jobs.merged_log import LogLine
from launcher.client.sessions import HasMetricAverages, MetricMatcher, defines_wait, metric_patterns
from launcher.errors import CloudError
from launcher.shared import FIELD_ERRORS, WAIT_METRIC

if TYPE_CHECKING:
    from launcher.client.jobs.job import Job
    from launcher.shared import TrainingJobDescription


#: SDK v2 looks this much further: CloudWatch drops the seconds of the end of a search.
_AFTER_END = timedelta(minutes=1)
#: Seconds of CloudWatch's periods, as in SDK v2.
PERIOD_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class MetricRecord:
    """One value of one metric.

    time: seconds since the epoch.
    host: which printed the value; None for an average over the hosts, from CloudWatch.
    group: the host's.
    step: the training step, where it is known.
    """

    metric_name: str
    value: float
    time: float
    host: str | None = None
    group: str | None = None
    step: int | None = None


@dataclass(frozen=True, kw_only=True)
class TimeRange:
    """The part of a job's time to read; None is the job's own start or end."""

    start: datetime | None = None
    end: datetime | None = None

    def __contains__(self, time: float) -> bool:
        first = self.start.timestamp() if self.start else -math.inf
        return first <= time <= (self.end.timestamp() if self.end else math.inf)


def final_metrics(description: TrainingJobDescription) -> dict[str, float]:
    """Return the last value of each metric that the user of a described job defined."""
    own = WAIT_METRIC if defines_wait(description) else None
    return {
        metric["MetricName"]: metric["Value"]
        for metric in description.get("FinalMetricDataList", [])
        if "MetricName" in metric and "Value" in metric and metric["MetricName"] != own
    }


class MetricReader:
    """Reads the values of metrics from the lines of a described job, in their order.

    names: default, all. own: read Launcher's own figures as well, from its events; the job's
    MetricDefinitions of the same names have precedence.
    """

    def __init__(
        self,
        description: TrainingJobDescription,
        names: Collection[str] | None = None,
        *,
        own: bool,
    ) -> None:
        self._names = names
        self._own = own
        self._defined = frozenset(metric_patterns(description))
        self._matcher = MetricMatcher(description, warnings.warn, names)
        self._rank: object = None

    @property
    def reads_lines(self) -> bool:
        """True if there is anything to read."""
        return self._own or self._matcher.reads_lines

    def read(self, line: LogLine) -> Iterator[MetricRecord]:
        """Yield the values in a line."""
        for name, value, step in self.values(line):
            yield MetricRecord(
                metric_name=name,
                value=value,
                time=line.time,
                host=line.host,
                group=line.group,
                step=step,
            )

    def values(self, line: LogLine) -> Iterator[tuple[str, float, int | None]]:
        """Yield the metric, value and step of each value in a line."""
        for name, value in self._matcher.values(line.text):
            yield name, value, None
        event = line.event if self._own else None
        if event is not None and self._is_first_rank(*event):
            step = event_step(*event)
            for name, value in event_metrics(*event).items():
                if name not in self._defined and self._is_wanted(name):
                    yield name, value, step

    def _is_wanted(self, name: str) -> bool:
        return self._names is None or name in self._names

    def _is_first_rank(self, name: str, fields: Mapping[str, Any]) -> bool:
        """Return whether an event's figures count; ranks go in step, so those of one do."""
        if name != "train_step":
            return True
        if self._rank is None:
            self._rank = fields.get("rank")
        return bool(self._rank == fields.get("rank"))


def records_from_logs(
    job: Job,
    names: Collection[str] | None = None,
    within: TimeRange | None = None,
    *,
    own: bool = False,
) -> list[MetricRecord]:
    """Return the values that the hosts have printed so far, by time.

    own: with Launcher's own figures.
    """
    reader = MetricReader(job.describe(), names, own=own)
    lines = job.logs() if reader.reads_lines else ()
    span = within or TimeRange()
    return [record for line in lines if line.time in span for record in reader.read(line)]


def records_from_cloudwatch(
    job: Job,
    names: Collection[str] | None = None,
    within: TimeRange | None = None,
    period: int = PERIOD_SECONDS,
    *,
    own: bool = False,
) -> list[MetricRecord]:
    """Return the metrics' averages by period, by time; none on a session without CloudWatch.

    own: with the wait for data, which is the one figure of Launcher that CloudWatch has.
    """
    session = job.session
    if not isinstance(session, HasMetricAverages):
        return []
    now = job.describe()
    start, end = _time_of(now, within or TimeRange())
    more = [WAIT_METRIC] if own and defines_wait(now) else []
    found = [
        MetricRecord(metric_name=name, value=point.value, time=point.time)
        for name in ([*metric_patterns(now), *more] if names is None else names)
        for point in session.metric_averages(job.name, name, start, end, period)
    ]
    return sorted(found, key=lambda record: record.time)


def records_from_any(
    job: Job,
    names: Collection[str] | None = None,
    within: TimeRange | None = None,
    period: int = PERIOD_SECONDS,
    *,
    own: bool = False,
) -> list[MetricRecord]:
    """Return the values from the logs; where they have none, CloudWatch's averages by period.

    Logs have none if they are gone or not readable. own: with Launcher's own figures.
    """
    try:
        found = records_from_logs(job, names, within, own=own)
    except CloudError:
        found = []
    return found or records_from_cloudwatch(job, names, within, period, own=own)


def _time_of(now: TrainingJobDescription, within: TimeRange) -> tuple[datetime, datetime]:
    """Return the times between which a described job trained, or those that the user gave."""
    start = within.start or now.get("TrainingStartTime") or now["CreationTime"]
    end = within.end or now.get("TrainingEndTime") or datetime.now(timezone.utc)
    return start, end + _AFTER_END


_Fields = Mapping[str, Any]
_Figures = Iterator[tuple[str, float]]

#: The figures of host_usage and train_step, by metric.
_HOST = {
    "host/cpu": "cpu",
    "host/memory_bytes": "memory_bytes",
    "host/gpu": "gpu",
    "host/gpu_memory_bytes": "gpu_memory_bytes",
    "host/received_bytes_per_second": "received_bytes_per_second",
    "host/sent_bytes_per_second": "sent_bytes_per_second",
}
_TRAIN = {
    "train/loss": "loss",
    "train/samples_per_second": "samples_per_second",
    "train/data_wait_seconds": "data_wait",
}
_VALIDATION = "validation_"


def event_metrics(name: str, fields: _Fields) -> dict[str, float]:
    """Return the figures in an event, by metric; none for an event without figures."""
    read = _READERS.get(name)
    try:
        return {} if read is None else dict(read(fields))
    except FIELD_ERRORS:
        return {}  # written by another version


def event_step(name: str, fields: _Fields) -> int | None:
    """Return the training step that an event's figures are of; None where it counts none."""
    step = fields.get("step") if name in ("train_step", "evaluation") else None
    return step if isinstance(step, int) else None


def _host_usage(fields: _Fields) -> _Figures:
    return _named(_HOST, fields)


def _train_step(fields: _Fields) -> _Figures:
    return _named(_TRAIN, fields)


def _named(names: Mapping[str, str], fields: _Fields) -> _Figures:
    for metric, name in names.items():
        if name in fields:
            yield metric, float(fields[name])


def _evaluation(fields: _Fields) -> _Figures:
    for name, value in fields.items():
        if name.startswith(_VALIDATION):
            yield f"validation/{name.removeprefix(_VALIDATION)}", float(value)


def _data_progress(fields: _Fields) -> _Figures:
    seconds = float(fields["total_seconds"])
    figures = {
        "data/steps_per_second": float(fields["step"]) / seconds,
        "data/wait_share": float(fields["wait_seconds"]) / seconds,
    }
    yield from ((metric, value) for metric, value in figures.items() if math.isfinite(value))


_READERS: Mapping[str, Callable[[_Fields], _Figures]] = {
    "host_usage": _host_usage,
    "train_step": _train_step,
    "evaluation": _evaluation,
    "data_progress": _data_progress,
}
