"""The content of a report, read from the job in one pass over its logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from launcher.client.jobs import (
    CollectedSeries,
    Job,
    LogLine,
    MetricReader,
    MetricSeries,
    failure_of,
    group_of_hosts,
    records_from_cloudwatch,
    sentence,
)
from launcher.client.planning.comparison.compared_job import ComparedJob, compared_job
from launcher.client.planning.diagnosis.diagnosis import Diagnosis, diagnosis_of
from launcher.client.planning.diagnosis.evidence_reading import read_evidence
from launcher.client.planning.diagnosis.job_evidence import JobEvidence
from launcher.client.planning.reporting.planned_run import PlannedRun, UnplannedRun, plan_of_run
from launcher.client.planning.reporting.report_chart import ChartBar
from launcher.client.planning.workloads.job_profile import JobFigures
from launcher.client.planning.workloads.workload import Workload
from launcher.client.sessions import metric_patterns

if TYPE_CHECKING:
    from launcher.shared import TrainingJobDescription


#: Times that differ by less than this share of the chart look the same.
_SAME = 0.01


@dataclass(frozen=True, kw_only=True)
class ReportEvent:
    """An event, as the report lists it: the same text of one or more hosts in turn is one.

    time: of the first, in seconds since the epoch. count: how often it came.
    """

    time: float
    hosts: tuple[str, ...]
    text: str
    count: int = 1

    @property
    def cells(self) -> tuple[str, str]:
        """The hosts and the event, as they are shown."""
        first, *more = self.hosts
        times = f" ({self.count} times)" if self.count > len(self.hosts) else ""
        return f"{first} and {len(more)} more" if more else first, self.text + times


def merged_hosts(hosts: Mapping[str, ChartBar]) -> Iterator[tuple[str, ChartBar]]:
    """Yield a name and bar for neighbours of a group with the same times: "algo-1 to algo-16"."""
    if not hosts:
        return
    span = max(bar.end for bar in hosts.values()) - min(bar.begin for bar in hosts.values())
    first = last = ""
    shown: ChartBar | None = None
    for host, bar in hosts.items():
        if shown is None or not _are_alike(shown, bar, _SAME * span):
            if shown is not None:
                yield _name(first, last), shown
            first, shown = host, bar
        last = host
    if shown is not None:
        yield _name(first, last), shown


def _are_alike(one: ChartBar, other: ChartBar, most: float) -> bool:
    differs = max(abs(one.begin - other.begin), abs(one.end - other.end))
    return one.name == other.name and differs <= most


def _name(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


#: Events that a report lists at most: the first ones, as a loop of errors repeats itself.
_MOST_EVENTS = 200
#: Events of hosts that are listed beside the warnings, as sentences.
_HOST_EVENTS = {
    "host_started": "started as {role}",
    "host_ended": "ended: {because}",
}


@dataclass
class LineFacts:
    """Metrics, events, and the first and last line of each host, from the lines of a job.

    figures: of its data service and its steps.
    """

    reader: MetricReader
    figures: JobFigures = field(default_factory=JobFigures)
    series: CollectedSeries = field(default_factory=CollectedSeries)
    events: list[ReportEvent] = field(default_factory=list)
    _times: dict[str, list[float]] = field(default_factory=dict)

    @property
    def hosts(self) -> dict[str, tuple[float, float]]:
        """The times of the first and last line of each host."""
        return {host: (first, last) for host, (first, last) in self._times.items()}

    def add(self, line: LogLine) -> None:
        """Take a line."""
        for name, value, _ in self.reader.values(line):
            self.series.add(name, line.group, line.host, line.time, value)
        times = self._times.setdefault(line.host, [line.time, line.time])
        times[1] = line.time
        if line.event is not None:
            self._add_event(line, *line.event)

    def _add_event(self, line: LogLine, name: str, fields: dict[str, Any]) -> None:
        self.figures.add(name, fields)
        text = _host_event(name, fields) or sentence(name, fields)
        if text is None or name in ("train_step", "evaluation"):
            return
        last = self.events[-1] if self.events else None
        if last and last.text == text:
            hosts = tuple(dict.fromkeys((*last.hosts, line.host)))
            self.events[-1] = replace(last, hosts=hosts, count=last.count + 1)
        elif len(self.events) < _MOST_EVENTS:
            self.events.append(ReportEvent(time=line.time, hosts=(line.host,), text=text))


@dataclass(frozen=True, kw_only=True)
class ReportFacts:
    """All that a report shows.

    cause: of a job that has failed. states: the job's secondary statuses over time. plan: clusters
    for its workload.
    """

    description: TrainingJobDescription
    cause: str | None
    diagnosis: Diagnosis
    priced: ComparedJob
    plan: PlannedRun | UnplannedRun
    series: Sequence[MetricSeries]
    events: tuple[ReportEvent, ...]
    hosts: dict[str, ChartBar]
    states: tuple[ChartBar, ...]
    written: datetime


def read_report_facts(
    job: Job, now: datetime | None = None, *, workload: Workload | None = None
) -> ReportFacts:
    """Read a job so far.

    now: the report's time, by default the present. workload: of the plan; None for what the job
    itself shows of it.
    """
    description = job.description()
    lines = LineFacts(MetricReader(description, own=True))
    evidence = read_evidence(job, lines.add)
    series = _completed(lines.series, job, evidence)
    written = now or datetime.now(timezone.utc)
    priced = compared_job(job, evidence)
    failure = failure_of(job.session, description, brief=True)
    return ReportFacts(
        description=description,
        cause=failure.headline if failure else None,
        diagnosis=diagnosis_of(evidence),
        priced=priced,
        plan=plan_of_run(evidence, priced, lines.figures, workload),
        series=series.series(list(metric_patterns(description))),
        events=tuple(lines.events),
        hosts={
            host: ChartBar(name=group, begin=lines.hosts[host][0], end=lines.hosts[host][1])
            for host, group in group_of_hosts(description).items()
            if host in lines.hosts
        },
        states=tuple(_states(description, written)),
        written=written,
    )


def _completed(series: CollectedSeries, job: Job, evidence: JobEvidence) -> CollectedSeries:
    """Add CloudWatch's figures of what the hosts have not logged, under the same names."""
    if not series.names:
        for each in records_from_cloudwatch(job):
            series.add(each.metric_name, each.group, each.host, each.time, each.value)
    groups, known = group_of_hosts(job.description()), set(series.names)
    for host, points in evidence.measured.items():
        for name, figure in (("host/cpu", "cpu"), ("host/gpu", "gpu")):
            for point in points if name not in known else ():
                value = getattr(point, figure)
                if value is not None:
                    series.add(name, groups.get(host), host, point.time, value)
    return series


def _states(description: TrainingJobDescription, now: datetime) -> Iterator[ChartBar]:
    """Yield the states that a described job went through, up to now."""
    for each in description.get("SecondaryStatusTransitions", ()):
        if "Status" in each and "StartTime" in each:
            end = each.get("EndTime") or now
            begin = each["StartTime"].timestamp()
            if end.timestamp() > begin:
                yield ChartBar(name=each["Status"], begin=begin, end=end.timestamp())


def _host_event(name: str, fields: dict[str, object]) -> str | None:
    try:
        return _HOST_EVENTS[name].format_map(fields)
    except KeyError:
        return None
