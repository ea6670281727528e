"""One job's page: state or end, cost, wait for data, then the details."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone

from launcher.client.catalogue import dollars_text
from launcher.client.jobs import (
    HostGroup,
    MetricSeries,
    group_series,
    host_groups,
    parameter_facts,
    record_facts,
)
from launcher.client.page.planned_run import plan_blocks
from launcher.client.page.report_facts import ReportFacts, merged_hosts
from launcher.client.planning import ComparedGroup, ComparedJob, advice_text
from launcher.client.sessions import TERMINAL_STATUSES
from launcher.client.show import (
    Block,
    Cell,
    JobsPage,
    PageBar,
    PageCard,
    PageLine,
    PageSection,
    Table,
    bars_block,
    chart_block,
    facts_block,
    list_block,
    most_points,
    readable,
    short_number,
    table_block,
    text_block,
    thin,
)
from launcher.shared import Confidence, HostUse

TONES = {"Completed": "good", "Failed": "bad", "Stopped": "warn", "Stopping": "warn"}
_UNITS = {"host/cpu": "share", "host/gpu": "share", "data/wait_share": "share"}
#: With more hosts than this, no reader can follow a line for each.
_MOST_HOSTS = 8
#: Parts of the time; in each, percentiles over steps or hosts are drawn.
_TIME_BINS = 240
#: Rows of ranks or neighbouring hosts of a chart of bars at most.
_MOST_BARS = 24
#: Characters of a line of a log.
_LONGEST_LINE = 2000
#: A wait for data that is worth a colour.
_LONG_WAIT = 0.2

Choose = Callable[[Sequence[float]], float]


def job_page(facts: ReportFacts, log_address: str = "") -> JobsPage:
    """Return the page of a job. log_address: where a host's whole log is, before its name."""
    description, written = facts.description, f"{facts.written:%Y-%m-%d %H:%M:%S} UTC"
    status, secondary = description["TrainingJobStatus"], description["SecondaryStatus"]
    begin = datetime.fromtimestamp(facts.begin, tz=timezone.utc)
    groups = (
        f"{each.name}: {len(each.hosts)} x {each.instance_type}"
        for each in host_groups(description)
    )
    return JobsPage(
        title=facts.priced.job_name,
        subtitle=" · ".join([f"began {begin:%Y-%m-%d %H:%M} UTC", *groups]),
        state=status if status == secondary else f"{status} ({secondary})",
        tone=TONES.get(status, "go"),
        cards=tuple(_cards(facts)),
        sections=tuple(_sections(facts, log_address)),
        is_final=status in TERMINAL_STATUSES,
        footer=f"Written {written} by Launcher. Times are counted from the job's beginning.",
    )


def _cards(facts: ReportFacts) -> Iterator[PageCard]:
    priced, evidence = facts.priced, facts.diagnosis.evidence
    if facts.failure is not None:
        yield PageCard(
            label="Why it failed",
            value=facts.failure.headline,
            note=facts.failure.fix or "",
            tone="bad",
            wide=True,
        )
    for loss in facts.description.get("LocalLosses", ()):
        yield PageCard(label="Not kept", value=loss, tone="warn", wide=True)
    is_over = facts.description["TrainingJobStatus"] in TERMINAL_STATUSES
    yield PageCard(
        label="Ran for" if is_over else "Running for",
        value=readable(facts.end - facts.begin),
        note=facts.progress,
    )
    yield _cost_card(priced)
    if evidence.data is None:
        without = "Only launcher.data's loader measures it." if is_over else "Not measured yet."
        yield PageCard(label="Waiting for data", value="unknown", note=without)
    else:
        share = evidence.data.share
        tone = "bad" if share >= _LONG_WAIT else "good"
        yield PageCard(
            label="Waiting for data",
            value=f"{share:.1%} of the time",
            note=evidence.data.text,
            tone=tone,
        )
    if evidence.step is not None:
        rate = priced.samples_per_second
        note = "" if rate is None else f"{short_number(rate)} samples a second"
        yield PageCard(label="A step takes", value=_seconds(evidence.step.mean), note=note)
    found = facts.diagnosis
    if found.confidence is not Confidence.NONE:
        perhaps = ", perhaps" if found.confidence is Confidence.LOW else ""
        change = f". To change: {found.change}" if found.change else ""
        yield PageCard(
            label=f"What limits its speed{perhaps}",
            value=found.limit.value,
            note=found.finding.why + change,
            wide=True,
        )


def _cost_card(priced: ComparedJob) -> PageCard:
    label = "Cost on AWS would be" if priced.is_priced_by_type else "Cost"
    total = priced.total
    if total is None:
        rate = f"{dollars_text(priced.per_hour)} an hour"
        return PageCard(label=label, value="unknown" if priced.per_hour is None else rate)
    idle = [each for group in priced.groups if (each := _idle_dollars(group, priced)) is not None]
    notes = [f"{dollars_text(priced.per_hour)} an hour"]
    if idle:
        notes.append(f"{dollars_text(sum(idle))} of it idle")
    return PageCard(label=label, value=dollars_text(total), note=", ".join(notes))


def _idle_dollars(group: ComparedGroup, priced: ComparedJob) -> float | None:
    """Return what the idle part of a group's accelerators, or else of its CPUs, cost."""
    share = group.idle_cpu if group.idle_gpu is None else group.idle_gpu
    total = _dollars(group, priced)
    return None if share is None or total is None else share * total


def _dollars(group: ComparedGroup, priced: ComparedJob) -> float | None:
    seconds = priced.billable_seconds
    return None if group.per_hour is None or seconds is None else group.per_hour / 3600 * seconds


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _sections(facts: ReportFacts, log_address: str) -> Iterator[PageSection]:
    user = [each for each in facts.series if each.metric_name in facts.priced.metrics]
    hosts = [each for each in facts.series if each.metric_name.startswith("host/")]
    data = [each for each in facts.series if each.metric_name == "data/wait_share"]
    most = most_points(min(len(facts.series), 8 * len({each.metric_name for each in facts.series})))
    yield PageSection(title="Metrics", blocks=list(_charts(facts, user, most)))
    steps = [*_step_time(facts), *_charts(facts, data, most), *_step_parts(facts)]
    yield PageSection(title="Steps", blocks=steps)
    machines = [*_hosts(facts), *_charts(facts, hosts, most), *_timeline(facts)]
    yield PageSection(title="Hosts", blocks=machines)
    yield PageSection(title="Logs", blocks=[_log(facts, log_address)] if facts.tails else [])
    yield PageSection(title="Speed", blocks=list(_diagnosis(facts)))
    yield PageSection(title="Configuration", blocks=[facts_block(list(configuration(facts)))])
    yield PageSection(title="Events", blocks=list(_events(facts)))
    yield PageSection(title="Cost", blocks=list(_cost(facts.priced)))
    yield PageSection(title="Plan", blocks=plan_blocks(facts.plan))


def _charts(facts: ReportFacts, found: Sequence[MetricSeries], most: int) -> Iterator[Block]:
    """Yield a chart for each metric and group."""
    for name, group, series in group_series(found):
        unit = _UNITS.get(name, "bytes" if "bytes" in name else "plain")
        title = f"{name}, {group}" if group else name
        lines = host_lines(series, facts.begin, most)
        yield chart_block(title, lines, unit=unit, marks=facts.marks)


def host_lines(series: Sequence[MetricSeries], begin: float, most: int) -> list[PageLine]:
    """Return a line for each host, or three over all hosts if they are many.

    These are of the hosts' means in parts of the time, so that a host which is slow for a while
    stands out and a single value does not. begin: of the job; most: points of a line.
    """
    if len(series) > _MOST_HOSTS:
        span = min(each.times[0] for each in series), max(each.times[-1] for each in series)
        means = [
            (middle, statistics.fmean(values))
            for each in series
            for middle, values in _parts(zip(each.times, each.values, strict=True), *span)
        ]
        return binned_lines(means, begin, _OF_HOSTS)
    return [_line(each, begin, most) for each in series]


def _line(series: MetricSeries, begin: float, most: int) -> PageLine:
    kept = thin(series.values, most)
    return PageLine(
        name=series.host or "all hosts",
        x=[series.times[place] - begin for place in kept],
        y=[series.values[place] for place in kept],
    )


def binned_lines(
    points: Sequence[tuple[float, float]], begin: float, choices: Sequence[tuple[str, Choose]]
) -> list[PageLine]:
    """Return a line for each choice of a value among those of each part of the time.

    points: times and values. begin: of the job.
    """
    times = [time for time, _ in points]
    parts = _parts(points, min(times), max(times))
    x = [middle - begin for middle, _ in parts]
    return [PageLine(name=name, x=x, y=[choose(v) for _, v in parts]) for name, choose in choices]


def _parts(
    points: Iterable[tuple[float, float]], first: float, last: float
) -> list[tuple[float, list[float]]]:
    """Return the middle of each part of the time that has values, and these."""
    length = (last - first) / _TIME_BINS or 1.0
    parts: dict[int, list[float]] = {}
    for time, value in points:
        parts.setdefault(min(_TIME_BINS - 1, int((time - first) / length)), []).append(value)
    return [(first + (part + 0.5) * length, parts[part]) for part in sorted(parts)]


def _quantile(share: float) -> Choose:
    return lambda values: sorted(values)[min(len(values) - 1, int(share * len(values)))]


_OF_HOSTS: Sequence[tuple[str, Choose]] = (
    ("highest host", max),
    ("median host", statistics.median),
    ("lowest host", min),
)
_OF_STEPS: Sequence[tuple[str, Choose]] = (("p50", _quantile(0.5)), ("p95", _quantile(0.95)))


def _step_time(facts: ReportFacts) -> Iterator[Block]:
    if facts.step_times:
        lines = binned_lines(facts.step_times, facts.begin, _OF_STEPS)
        yield chart_block("Time of a step", lines, unit="seconds", marks=facts.marks, wide=True)


def _step_parts(facts: ReportFacts) -> Iterator[Block]:
    """Yield the parts of a mean step: of each rank, or of the script as a whole."""
    evidence = facts.diagnosis.evidence
    rows: list[tuple[str, Sequence[PageBar]]] = [
        (
            f"rank {each.rank}",
            _stacked(
                ("data wait", each.data_wait),
                ("computing", each.compute),
                ("other ranks", each.communication or 0.0),
            ),
        )
        for each in evidence.ranks[:_MOST_BARS]
    ]
    if not rows and evidence.data is not None and evidence.step is not None:
        waited = evidence.data.share * evidence.step.mean
        rest = evidence.step.mean - waited
        rows = [("step", _stacked(("data wait", waited), ("the script", rest)))]
    if any(bars for _, bars in rows):
        yield bars_block("Parts of a mean step", rows, "seconds")


def _stacked(*parts: tuple[str, float]) -> list[PageBar]:
    bars, at = [], 0.0
    for name, seconds in parts:
        if seconds > 0:
            bars.append(PageBar(name=name, begin=at, end=at + seconds))
            at += seconds
    return bars


def _hosts(facts: ReportFacts) -> Iterator[Block]:
    """Yield a row for each host: the one that failed, then those that were used least."""
    used = {use.host: use for group in facts.diagnosis.evidence.groups for use in group.hosts}
    failed = facts.failure.host if facts.failure else None
    rows = []
    for group in host_groups(facts.description):
        for host in group.hosts:
            use = used.get(host)
            cells = _host_row(host, group, use, failed, facts)
            rows.append((_idleness(host == failed, use), cells))
    columns = ("host", "group", "type", "CPU", "GPU", "printed for")
    table = Table(title="hosts", columns=columns, numbers=("CPU", "GPU", "printed for"))
    rows.sort(key=lambda row: row[0])
    yield table_block(table, [row for _, row in rows])


def _idleness(is_failed: bool, use: HostUse | None) -> float:
    """Return the place of a host among the others: the worst one is the least."""
    if is_failed:
        return -1.0
    shares = [] if use is None else [each for each in (use.gpu, use.cpu) if each is not None]
    return shares[0] if shares else 2.0


def _host_row(
    host: str,
    group: HostGroup,
    use: HostUse | None,
    failed: str | None,
    facts: ReportFacts,
) -> list[Cell]:
    shown = facts.hosts.get(host)
    name: Cell = {"text": host, "log": host} if host in facts.tails else host
    if host == failed:
        name = {**name, "text": f"{host} failed"} if isinstance(name, dict) else f"{host} failed"
    return [
        name,
        group.name,
        group.instance_type,
        _share(use.cpu if use else None),
        _share(use.gpu if use else None),
        readable(shown.end - shown.begin) if shown else "",
    ]


def _share(share: float | None) -> Cell:
    return "" if share is None else {"text": f"{share:.0%}", "share": share}


def _timeline(facts: ReportFacts) -> Iterator[Block]:
    if facts.states:
        yield bars_block("States of the job", [("job", facts.states)], "time")
    rows: list[tuple[str, Sequence[PageBar]]] = [
        (name, [bar]) for name, bar in merged_hosts(facts.hosts)
    ]
    if rows:
        more = f", {len(rows) - _MOST_BARS} rows left out" if len(rows) > _MOST_BARS else ""
        title = f"First to last line of each host{more}"
        yield bars_block(title, rows[:_MOST_BARS], "time")


def _log(facts: ReportFacts, log_address: str) -> Block:
    """Return the last lines of each host: the one that failed first, then those that train."""
    failed = facts.failure.host if facts.failure else None
    training = {group.name for group in facts.diagnosis.evidence.train}
    trains = {host for host, bar in facts.hosts.items() if bar.name in training}
    names = sorted(facts.tails, key=lambda host: (host != failed, host not in trains))
    groups = {host: bar.name for host, bar in facts.hosts.items()}
    return {
        "kind": "log",
        "title": "logs",
        "hosts": [
            {
                "host": host,
                "group": groups.get(host, ""),
                "count": tail.count,
                "href": log_address and log_address + host,
                "lines": [
                    [round(line.time - facts.begin, 2), line.readable[:_LONGEST_LINE]]
                    for line in tail.lines
                ],
            }
            for host, tail in ((name, facts.tails[name]) for name in names)
        ],
    }


def _diagnosis(facts: ReportFacts) -> Iterator[Block]:
    found = facts.diagnosis
    named = f" ({found.culprit})" if found.culprit else ""
    sure = "" if found.confidence is Confidence.NONE else f", confidence {found.confidence.value}"
    yield text_block(f"{found.limit.value}{named}{sure}: {found.finding.why}")
    if found.advice:
        yield list_block("What to change", [advice_text(each) for each in found.advice])
    for missing in found.evidence.missing:
        yield text_block(f"Unknown: {missing}", "faint")


def configuration(facts: ReportFacts) -> Iterator[tuple[str, str]]:
    """Yield what the job was made from: labels and texts."""
    description = facts.description
    yield "Runs", "\n".join(facts.notes)
    algorithm: Mapping[str, object] = description.get("AlgorithmSpecification", {})
    yield "Image", str(description.get("LocalImage", algorithm).get("TrainingImage", "unknown"))
    for group in host_groups(description):
        yield group.name, f"{len(group.hosts)} x {group.instance_type}"
    if facts.record is None:
        yield from parameter_facts(description.get("HyperParameters", {}))
    else:
        yield from record_facts(facts.record)


def _events(facts: ReportFacts) -> Iterator[Block]:
    rows = [(readable(each.time - facts.begin), *each.cells) for each in facts.events]
    if rows:
        yield table_block(Table(title="events", columns=("after", "host", "event")), rows)


def _cost(priced: ComparedJob) -> Iterator[Block]:
    columns = ("group", "hosts", "per hour", "total", "idle CPU", "idle GPU", "idle dollars")
    total = (dollars_text(priced.per_hour), dollars_text(priced.total))
    rows = [*(_cost_row(each, priced) for each in priced.groups), ("total", "", *total, "", "", "")]
    yield table_block(Table(title="cost", columns=columns, numbers=columns[2:]), rows)
    yield from (text_block(f"Prices: {each}.") for each in priced.prices)
    if priced.billable_seconds is not None:
        yield text_block(f"Billed: {readable(priced.billable_seconds)} of each host.")
    if priced.is_priced_by_type:
        yield text_block(
            "It ran where nothing is billed: these are the prices of the instance types that it "
            "names, for the time that it took here."
        )


def _cost_row(group: ComparedGroup, priced: ComparedJob) -> list[Cell]:
    return [
        group.name,
        group.hosts,
        dollars_text(group.per_hour),
        dollars_text(_dollars(group, priced)),
        _share(group.idle_cpu),
        _share(group.idle_gpu),
        dollars_text(_idle_dollars(group, priced)),
    ]
