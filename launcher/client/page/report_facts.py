"""The content of a report, read from the job in one pass over its logs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from launcher.client.jobs import (
    CollectedSeries,
    FailureReport,
    Job,
    LogLine,
    MetricReader,
    MetricSeries,
    failure_of,
    group_of_hosts,
    records_from_cloudwatch,
    sentence,
)
from launcher.client.page.planned_run import PlannedRun, UnplannedRun, plan_of_run
from launcher.client.planning import (
    ComparedJob,
    Diagnosis,
    JobEvidence,
    JobFigures,
    Workload,
    diagnosis_of,
    job_with_prices,
    read_evidence,
)
from launcher.client.sessions import TERMINAL_STATUSES, metric_patterns
from launcher.client.show import PageBar
from launcher.shared import FIELD_ERRORS

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


def merged_hosts(hosts: Mapping[str, PageBar]) -> Iterator[tuple[str, PageBar]]:
    """Yield a name and bar for neighbours of a group with the same times: "algo-1 to algo-16"."""
    if not hosts:
        return
    span = max(bar.end for bar in hosts.values()) - min(bar.begin for bar in hosts.values())
    first = last = ""
    shown: PageBar | None = None
    for host, bar in hosts.items():
        if shown is None or not _are_alike(shown, bar, _SAME * span):
            if shown is not None:
                yield _name(first, last), shown
            first, shown = host, bar
        last = host
    if shown is not None:
        yield _name(first, last), shown


def _are_alike(one: PageBar, other: PageBar, most: float) -> bool:
    differs = max(abs(one.begin - other.begin), abs(one.end - other.end))
    return one.name == other.name and differs <= most


def _name(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


#: Events that a report lists at most: the first ones, as a loop of errors repeats itself.
_MOST_EVENTS = 200
#: Lines of all hosts that a page keeps, and of one host at least and at most.
_KEPT_LINES, _FEWEST_LINES, _MOST_LINES = 16_000, 20, 2000
#: Events that a page has as charts.
_CHARTED = ("host_usage", "data_progress", "data_metrics", "train_step")
#: Marks that a chart has at most; above, only restarts are drawn.
_MOST_MARKS = 60
#: Moments that charts mark.
_MARKS = {
    "checkpoint_saved": "saved {step}",
    "checkpoint_loaded": "restart from {step}",
    "worker_died": "worker died",
    "service_restarted": "{service} restarted",
    "host_failed": "host failed",
}
#: Events that are listed beside the warnings, as sentences.
_HOST_EVENTS = {
    "host_started": "started as {role}",
    "host_ended": "ended: {because}",
    "checkpoint_loaded": "restarted from the checkpoint of step {step}",
}


@dataclass
class LineFacts:
    """Metrics, events, and the first and last line of each host, from the lines of a job.

    kept_lines: of each host, its last ones. figures: of its data service and its steps.
    progress: of the training, as a sentence. step_times: times, and seconds of a step then.
    marks: the moments of epochs, checkpoints and restarts, with their texts.
    """

    reader: MetricReader
    kept_lines: int
    figures: JobFigures = field(default_factory=JobFigures)
    series: CollectedSeries = field(default_factory=CollectedSeries)
    events: list[ReportEvent] = field(default_factory=list)
    tails: dict[str, LogTail] = field(default_factory=dict)
    progress: str = ""
    step_times: list[tuple[float, float]] = field(default_factory=list)
    marks: dict[str, float] = field(default_factory=dict)
    _times: dict[str, list[float]] = field(default_factory=dict)
    _passes: dict[tuple[object, ...], tuple[float, float]] = field(default_factory=dict)

    @property
    def hosts(self) -> dict[str, tuple[float, float]]:
        """The times of the first and last line of each host."""
        return {host: (first, last) for host, (first, last) in self._times.items()}

    def add(self, line: LogLine) -> None:
        """Take a line."""
        self.series.add_line(line, self.reader)
        times = self._times.setdefault(line.host, [line.time, line.time])
        times[1] = line.time
        if line.event is not None:
            self._add_event(line, *line.event)
            if line.event[0] in _CHARTED:
                return
        tail = self.tails.setdefault(line.host, LogTail(deque(maxlen=self.kept_lines)))
        tail.count += 1
        tail.lines.append(line)

    def _add_event(self, line: LogLine, name: str, fields: dict[str, Any]) -> None:
        self.figures.add(name, fields)
        try:
            self._add_progress(line, name, fields)
        except FIELD_ERRORS:
            return  # a line of the script's own
        text = _host_event(name, fields) or sentence(name, fields)
        if text is None or name in ("train_step", "evaluation"):
            return
        last = self.events[-1] if self.events else None
        if last and last.text == text:
            hosts = tuple(dict.fromkeys((*last.hosts, line.host)))
            self.events[-1] = replace(last, hosts=hosts, count=last.count + 1)
        elif len(self.events) < _MOST_EVENTS:
            self.events.append(ReportEvent(time=line.time, hosts=(line.host,), text=text))

    def _add_progress(self, line: LogLine, name: str, fields: dict[str, Any]) -> None:
        if name == "data_progress":
            self._add_pass(line, fields)
        elif name == "train_step":
            parts = (fields["data_wait"], fields["compute"], fields.get("communication") or 0.0)
            self.step_times.append((line.time, float(sum(parts))))
            self.marks.setdefault(f"epoch {fields['epoch']}", line.time)
            self.progress = f"step {fields['step']} of {fields['steps']}, epoch {fields['epoch']}"
        elif name == "host_phase" and not self._passes:
            self.progress = f"{line.host} is {fields['doing']}" if fields["doing"] else ""
        elif name in _MARKS:
            self.marks.setdefault(_MARKS[name].format_map(fields), line.time)

    def _add_pass(self, line: LogLine, fields: dict[str, Any]) -> None:
        """Take the steps of a rank since it last reported."""
        key = (line.host, fields.get("rank"), fields["stream"], fields["epoch"])
        steps, seconds = self._passes.get(key, (0.0, 0.0))
        now = (float(fields["step"]), float(fields["total_seconds"]))
        self._passes[key] = now
        if now[0] > steps:
            self.step_times.append((line.time, (now[1] - seconds) / (now[0] - steps)))
        self.marks.setdefault(f"epoch {fields['epoch']}", line.time)
        whole = f" of {fields['steps']}" if fields.get("steps") else ""
        self.progress = f"step {fields['step']}{whole} of epoch {fields['epoch']}"


@dataclass
class LogTail:
    """The last lines of a host, and the number of all of them, without those of charts."""

    lines: deque[LogLine]
    count: int = 0


@dataclass(frozen=True, kw_only=True)
class ReportFacts:
    """All that a report shows.

    failure: of a job that has failed. notes: where it runs, and its attempts. record: how it was
    sent, from this machine. states: the job's secondary statuses over time. plan: clusters for its
    workload. tails: the last lines of each host. begin, end: of the job, in seconds since the
    epoch. The others: as of LineFacts.
    """

    description: TrainingJobDescription
    failure: FailureReport | None
    notes: Sequence[str]
    record: Mapping[str, Any] | None
    diagnosis: Diagnosis
    priced: ComparedJob
    plan: PlannedRun | UnplannedRun
    series: Sequence[MetricSeries]
    events: tuple[ReportEvent, ...]
    hosts: dict[str, PageBar]
    states: tuple[PageBar, ...]
    tails: Mapping[str, LogTail]
    progress: str
    step_times: Sequence[tuple[float, float]]
    marks: Sequence[Mapping[str, Any]]
    begin: float
    end: float
    written: datetime


def read_report_facts(job: Job, workload: Workload | None = None) -> ReportFacts:
    """Read a job so far. workload: of the plan; None for what the job itself shows of it."""
    description = job.description()
    groups = group_of_hosts(description)
    kept = min(_MOST_LINES, max(_FEWEST_LINES, _KEPT_LINES // max(1, len(groups))))
    lines = LineFacts(MetricReader(description, own=True), kept)
    evidence = read_evidence(job, lines.add)
    series = _completed(lines.series, job, evidence)
    spans = lines.hosts
    written = datetime.now(timezone.utc)
    priced = job_with_prices(job, evidence, series)
    record = job.record()
    states = tuple(_states(description, written))
    begin, end = _span(description, states, lines, written)
    return ReportFacts(
        description=description,
        failure=failure_of(job.session, description),
        notes=job.session.place_notes(description),
        record=None if record is None else record.to_plain(),
        diagnosis=diagnosis_of(evidence),
        priced=priced,
        plan=plan_of_run(evidence, priced, lines.figures, workload),
        series=series.series(list(metric_patterns(description))),
        events=tuple(lines.events),
        hosts={
            host: PageBar(name=group, begin=spans[host][0], end=spans[host][1])
            for host, group in groups.items()
            if host in spans
        },
        states=states,
        tails=lines.tails,
        progress=lines.progress,
        step_times=lines.step_times,
        marks=_marks(lines.marks, begin),
        begin=begin,
        end=end,
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


def _span(
    description: TrainingJobDescription,
    states: Sequence[PageBar],
    lines: LineFacts,
    now: datetime,
) -> tuple[float, float]:
    """Return when the job began and ended, or now."""
    times = [time for span in lines.hosts.values() for time in span]
    begins = [each.begin for each in states] or times
    created = description.get("CreationTime", now)
    ended = description.get("TrainingEndTime")
    is_over = description["TrainingJobStatus"] in TERMINAL_STATUSES
    end = max([each.end for each in states] + times, default=now.timestamp())
    if ended is not None or not is_over:
        end = (ended or now).timestamp()
    return min(begins, default=created.timestamp()), end


def _marks(found: Mapping[str, float], begin: float) -> list[dict[str, Any]]:
    kept = found if len(found) <= _MOST_MARKS else {}
    return [
        {"time": round(time - begin, 2), "text": text, "tone": "" if _is_usual(text) else "bad"}
        for text, time in found.items()
        if text in kept or not _is_usual(text)
    ][:_MOST_MARKS]


def _is_usual(text: str) -> bool:
    return text.startswith(("epoch ", "saved "))


def _states(description: TrainingJobDescription, now: datetime) -> Iterator[PageBar]:
    """Yield the states that a described job went through, up to now."""
    for each in description.get("SecondaryStatusTransitions", ()):
        if "Status" in each and "StartTime" in each:
            end = each.get("EndTime") or now
            begin = each["StartTime"].timestamp()
            if end.timestamp() > begin:
                yield PageBar(name=each["Status"], begin=begin, end=end.timestamp())


def _host_event(name: str, fields: dict[str, object]) -> str | None:
    try:
        return _HOST_EVENTS[name].format_map(fields)
    except KeyError:
        return None
