"""The page that lists jobs, and the one that compares some of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote

from launcher.client.catalogue import dollars_text
from launcher.client.jobs import MetricSeries, age_text, group_series, last_metric, plain_job
from launcher.client.page.job_page import TONES, binned_lines, configuration
from launcher.client.page.report_facts import ReportFacts
from launcher.client.planning import Comparison
from launcher.client.sessions import PlatformSession
from launcher.client.show import (
    Block,
    Cell,
    JobsPage,
    PageLine,
    PageSection,
    Table,
    chart_block,
    readable,
    table_block,
    text_block,
)

#: Jobs that are listed.
_MOST_JOBS = 200


def list_page(session: PlatformSession) -> JobsPage:
    """Return the page of a session's jobs, newest first."""
    jobs = session.list_training_jobs(
        NameContains=None, StatusEquals=None, CreationTimeAfter=None, limit=_MOST_JOBS
    )["TrainingJobSummaries"]
    rows = [_job_row(job) for job in (plain_job(each, session) for each in jobs)]
    table = Table(
        title="jobs",
        columns=("job", "state", "age", "ran for", "cost", "hosts", "tags", "last metric or cause"),
        numbers=("age", "ran for", "cost"),
    )
    some = [table_block(table, rows, pick="/compare?jobs=")]
    none = [text_block("No jobs yet: `launcher run` sends one.")]
    return JobsPage(
        title="Jobs",
        subtitle="Tick two or more to compare them.",
        sections=[PageSection(title="All jobs", blocks=some if rows else none)],
        footer="Served by launcher ui, which only reads.",
    )


def _job_row(job: dict[str, Any]) -> list[Cell]:
    name, status, created = str(job["name"]), str(job["status"]), job["creation_time"]
    now = datetime.now(timezone.utc)
    age = (now - created).total_seconds()
    ran = ((job["end_time"] or now) - created).total_seconds()
    dollars = (job["cost"] or {}).get("dollars")
    return [
        {"text": name, "href": f"/jobs/{quote(name)}"},
        {"text": status, "tone": TONES.get(status, "go")},
        {"text": age_text(age), "order": age},
        {"text": readable(ran), "order": ran},
        {"text": "" if dollars is None else dollars_text(dollars), "order": dollars or 0},
        ", ".join(_groups(job["groups"])),
        ", ".join(f"{key}={value}" for key, value in (job["tags"] or {}).items()),
        job["cause"] or _metric_cell(job["metrics"] or {}),
    ]


def _metric_cell(metrics: Mapping[str, float]) -> Cell:
    return {"text": last_metric(metrics), "order": [*metrics.values()][-1]} if metrics else ""


def _groups(groups: Sequence[dict[str, Any]] | None) -> Iterator[str]:
    for each in groups or ():
        yield f"{len(each['hosts'])} x {each['instance_type']}"


def compare_page(jobs: Sequence[ReportFacts]) -> JobsPage:
    """Return the page that puts jobs side by side: figures, metrics, and what was changed."""
    table = Comparison(jobs=tuple(job.priced for job in jobs)).table
    columns = ("figure", *table.columns[1:])
    known = [row for row in table.rows if set(row[1:]) - {"-", "unknown"}]
    figures = table_block(Table(title="figures", columns=columns), known)
    notes = [text_block(text, "faint") for _, text in table.notes]
    return JobsPage(
        title="Compared",
        subtitle=", ".join(table.columns[1:]),
        sections=[
            PageSection(title="What was changed", blocks=[_changes(jobs)]),
            PageSection(title="Figures", blocks=[figures, *notes]),
            PageSection(title="Metrics", blocks=list(_metric_charts(jobs))),
        ],
        footer="Times are counted from each job's beginning.",
    )


def _metric_charts(jobs: Sequence[ReportFacts]) -> Iterator[Block]:
    """Yield a chart for each metric, with the mean over the hosts of each job."""
    lines: dict[str, list[PageLine]] = {}
    for job in jobs:
        found = [each for each in job.series if not each.metric_name.startswith("host/")]
        for name, group, series in group_series(found):
            title = f"{name}, {group}" if group else name
            lines.setdefault(title, []).append(_mean_line(job, series))
        if job.step_times:
            lines.setdefault("time of a step", []).append(_named(job, job.step_times))
    for title, found_lines in lines.items():
        unit = "seconds" if title == "time of a step" else "plain"
        yield chart_block(title, found_lines, unit=unit)


def _mean_line(job: ReportFacts, series: Sequence[MetricSeries]) -> PageLine:
    points = [point for each in series for point in zip(each.times, each.values, strict=True)]
    return _named(job, points)


def _named(job: ReportFacts, points: Sequence[tuple[float, float]]) -> PageLine:
    name = job.priced.job_name
    (line,) = binned_lines(points, job.begin, [(name, lambda values: sum(values) / len(values))])
    return line


def _differing(texts: Sequence[str]) -> Iterator[str]:
    """Yield of each text the parts, one a line or after a comma, that are not in all."""
    by = "\n" if any("\n" in text for text in texts) else ", "
    parts = [text.split(by) for text in texts]
    for own in parts:
        yield by.join(part for part in own if any(part not in each for each in parts)) or "-"


def _changes(jobs: Sequence[ReportFacts]) -> Block:
    """Return the configuration in which the jobs differ."""
    found = [dict(configuration(job)) for job in jobs]
    labels = dict.fromkeys(label for each in found for label in each)
    rows = [
        (label, *_differing([each.get(label, "") for each in found]))
        for label in labels
        if len({each.get(label) for each in found}) > 1
    ]
    names = [job.priced.job_name for job in jobs]
    if not rows:
        return text_block("Nothing in their configuration differs.")
    return table_block(Table(title="changes", columns=("", *names)), rows)
