"""A report as one HTML document: no script, nothing from a network, light and dark, for print."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone

from launcher.client.catalogue import dollars_text
from launcher.client.jobs import MetricSeries, group_series, host_groups
from launcher.client.planning.comparison.compared_job import ComparedGroup, ComparedJob
from launcher.client.planning.diagnosis.diagnosis import advice_text
from launcher.client.planning.diagnosis.job_evidence import JobEvidence
from launcher.client.planning.reporting.plan_section import plan_section
from launcher.client.planning.reporting.report_chart import (
    ChartBar,
    ChartLine,
    bar_chart,
    line_chart,
    report_style,
    wide_table,
)
from launcher.client.planning.reporting.report_facts import ReportFacts, merged_hosts
from launcher.client.show import Table, escaped, readable
from launcher.shared import Confidence

_SHARES = {"host/cpu": "CPU", "host/gpu": "GPU", "data/wait_share": "wait for data"}
#: Rows of hosts or ranks of a chart at most.
_HOSTS_SHOWN = 40


def report_html(facts: ReportFacts) -> str:
    """Return the document."""
    name = escaped(facts.priced.job_name)
    sections = "".join(
        f"<section><h2>{escaped(title)}</h2>{content}</section>"
        for title, content in _sections(facts)
        if content
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}</title><style>{report_style()}</style></head><body>"
        f"<main><h1>{name}</h1>{_heading(facts)}{sections}</main></body></html>\n"
    )


def _heading(facts: ReportFacts) -> str:
    description, written = facts.description, f"{facts.written:%Y-%m-%d %H:%M} UTC"
    status, secondary = description["TrainingJobStatus"], description["SecondaryStatus"]
    state = status if status == secondary else f"{status} ({secondary})"
    groups = ", ".join(
        f"{each.name}: {len(each.hosts)} x {each.instance_type}"
        for each in host_groups(description)
    )
    cause = f"<p><b>Cause</b> {escaped(facts.cause)}</p>" if facts.cause else ""
    return (
        f"<p>{escaped(state)} &middot; {escaped(groups)}</p>{cause}"
        f'<p class="faint">Written {written} by launcher report</p>'
    )


def _sections(facts: ReportFacts) -> Iterator[tuple[str, str]]:
    yield "What limits it", _diagnosis(facts)
    yield "States and hosts", _timeline(facts)
    yield "A step", _step(facts.diagnosis.evidence)
    yield "Machines", _charts(facts.series, lambda name: name.startswith("host/"))
    yield "Training", _charts(facts.series, lambda name: not name.startswith("host/"))
    yield "Cost", _cost(facts.priced)
    yield "The plan", plan_section(facts.plan)
    yield "Events", _events(facts)


def _diagnosis(facts: ReportFacts) -> str:
    found = facts.diagnosis
    named = f" ({found.culprit})" if found.culprit else ""
    sure = "" if found.confidence is Confidence.NONE else f", confidence {found.confidence.value}"
    advice = "".join(f"<li>{_with_code(advice_text(each))}</li>" for each in found.advice)
    unknown = "".join(
        f'<p class="faint">Unknown: {escaped(each)}</p>' for each in found.evidence.missing
    )
    return (
        f'<div class="answer"><p><b>{escaped(found.limit.value + named)}</b>{sure}</p>'
        f"<p>{escaped(found.finding.why)}</p><ol>{advice}</ol></div>{unknown}"
    )


def _with_code(text: str) -> str:
    """Return text as HTML, with commands between backticks as code."""
    return re.sub("`([^`]*)`", r"<code>\1</code>", escaped(text))


def _timeline(facts: ReportFacts) -> str:
    rows: list[tuple[str, Sequence[ChartBar]]] = [
        (name, [bar]) for name, bar in merged_hosts(facts.hosts)
    ]
    charts = [
        bar_chart("states of the job", [("job", facts.states)], "time"),
        bar_chart("first to last line of each host, by group", rows[:_HOSTS_SHOWN], "time"),
    ]
    return f'<div class="charts">{"".join(charts)}</div>{_left_out(rows)}' if any(charts) else ""


def _left_out(rows: Sequence[object]) -> str:
    more = len(rows) - _HOSTS_SHOWN
    return f'<p class="faint">{more} more rows are left out.</p>' if more > 0 else ""


def _step(evidence: JobEvidence) -> str:
    rows: list[tuple[str, Sequence[ChartBar]]] = [
        (
            f"rank {each.rank}",
            _stacked(
                ("data wait", each.data_wait),
                ("computing", each.compute),
                ("other ranks", each.communication or 0.0),
            ),
        )
        for each in evidence.ranks[:_HOSTS_SHOWN]
    ]
    if not rows and evidence.data is not None and evidence.step is not None:
        waited = evidence.data.share * evidence.step.mean
        rest = evidence.step.mean - waited
        rows = [("step", _stacked(("data wait", waited), ("the script", rest)))]
    if not rows:
        return ""
    return f'<div class="charts">{bar_chart("mean time of a step", rows, "ms")}</div>'


def _stacked(*parts: tuple[str, float]) -> list[ChartBar]:
    bars, at = [], 0.0
    for name, seconds in parts:
        if seconds > 0:
            bars.append(ChartBar(name=name, begin=at * 1e3, end=(at + seconds) * 1e3))
            at += seconds
    return bars


def _charts(found: Sequence[MetricSeries], wanted: Callable[[str], bool]) -> str:
    """Return a chart for each metric and group; wanted: returns whether a metric is shown here."""
    charts = []
    for name, group, series in group_series(found):
        if not wanted(name):
            continue
        lines = host_chart_lines(series)
        title = f"{name}, {group}" if group else name
        charts.append(line_chart(title, lines, is_share=name in _SHARES))
    return f'<div class="charts">{"".join(charts)}</div>' if charts else ""


def _cost(priced: ComparedJob) -> str:
    columns = ("group", "hosts", "per hour", "total", "idle CPU", "idle GPU")
    total = (dollars_text(priced.per_hour), dollars_text(priced.total))
    rows = [*(_cost_row(each, priced) for each in priced.groups), ("total", "", *total, "", "")]
    table = Table(title="cost", columns=columns, rows=rows, numbers=columns[2:])
    notes = [f"Prices: {each}." for each in priced.prices]
    if priced.billable_seconds is not None:
        notes.append(f"Billed: {readable(priced.billable_seconds)} of each host.")
    if priced.is_priced_by_type:
        notes.append(
            "It ran where nothing is billed: these are the prices of the instance types that it "
            "names, for the time that it took here."
        )
    text = "".join(f'<p class="faint">{_with_code(note)}</p>' for note in notes)
    return f"{wide_table(table)}{text}"


def _cost_row(group: ComparedGroup, priced: ComparedJob) -> tuple[str, ...]:
    seconds = priced.billable_seconds
    total = None if group.per_hour is None or seconds is None else group.per_hour / 3600 * seconds
    idle = (group.idle_cpu, group.idle_gpu)
    return (
        group.name,
        group.hosts,
        dollars_text(group.per_hour),
        dollars_text(total),
        *("unknown" if share is None else f"{share:.0%}" for share in idle),
    )


def _events(facts: ReportFacts) -> str:
    if not facts.events:
        return ""
    first, last = facts.events[0].time, facts.events[-1].time
    pattern = "%H:%M:%S" if _time(first).date() == _time(last).date() else "%m-%d %H:%M:%S"
    rows = [(_time(each.time).strftime(pattern), *each.cells) for each in facts.events]
    return wide_table(Table(title="events", columns=("UTC", "host", "event"), rows=rows))


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, tz=timezone.utc)


#: With more hosts than this, no reader can follow a line.
MOST_HOSTS = 8
#: Parts of the time; in each, the lowest, median and highest mean of a host are drawn.
_TIME_BINS = 120
_CHOICES: tuple[tuple[str, Callable[[Sequence[float]], float]], ...] = (
    ("highest host", max),
    ("median host", statistics.median),
    ("lowest host", min),
)


def host_chart_lines(series: Sequence[MetricSeries]) -> list[ChartLine]:
    """Return a line for each host, or three of all hosts if they are many.

    These are of the hosts' means in parts of the time, so that a host which is slow for a while
    stands out and a single value does not.
    """
    if len(series) <= MOST_HOSTS:
        return [
            ChartLine(name=each.host or "all hosts", times=each.times, values=each.values)
            for each in series
        ]
    begin = min(each.times[0] for each in series)
    length = (max(each.times[-1] for each in series) - begin) / _TIME_BINS or 1.0
    bins: list[list[float]] = [[] for _ in range(_TIME_BINS)]
    for each in series:
        for number, mean in _means(each, begin, length):
            bins[number].append(mean)
    middles = [(begin + (n + 0.5) * length, found) for n, found in enumerate(bins) if found]
    times = [time for time, _ in middles]
    return [
        ChartLine(name=name, times=times, values=[choose(found) for _, found in middles])
        for name, choose in _CHOICES
    ]


def _means(series: MetricSeries, begin: float, length: float) -> Iterator[tuple[int, float]]:
    """Yield the number of each bin in which a host has values, and their mean."""
    sums = [0.0] * _TIME_BINS
    counts = [0] * _TIME_BINS
    for time, value in zip(series.times, series.values, strict=True):
        number = min(_TIME_BINS - 1, math.floor((time - begin) / length))
        sums[number] += value
        counts[number] += 1
    yield from ((number, sums[number] / count) for number, count in enumerate(counts) if count)
