"""A comparison as text, and as HTML for notebooks: a column for each job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from launcher.client.catalogue.cost import dollars_text, old_price_note
from launcher.client.jobs.aligned_columns import aligned
from launcher.client.jobs.short_numbers import short_number
from launcher.client.planning.comparison.compared_job import ComparedGroup, ComparedJob
from launcher.client.planning.comparison.price_change import PriceChange
from launcher.client.spec.html_tables import html_cells, html_pairs, html_table

if TYPE_CHECKING:
    from launcher.client.planning.comparison.comparison import Comparison

_UNKNOWN = "unknown"


def comparison_text(comparison: Comparison) -> str:
    """Return the table and its notes."""
    return "\n".join([*aligned(list(_rows(comparison))), "", *_notes(comparison)])


def comparison_html(comparison: Comparison) -> str:
    """Return the same as tables."""
    head, *rows = _rows(comparison)
    table = html_table([html_cells("th", head), *(html_cells("td", row) for row in rows)])
    return table + html_pairs([("", note) for note in _notes(comparison)])


def _rows(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    jobs = comparison.jobs
    yield ("", *(job.job_name for job in jobs))
    yield ("status", *(job.status for job in jobs))
    yield ("train", *(_hosts(job, trains=True) for job in jobs))
    yield ("data", *(_hosts(job, trains=False) for job in jobs))
    yield ("step", *map(_step, jobs))
    yield ("samples/s", *(_number(job.samples_per_second) for job in jobs))
    yield ("per hour", *(_dollars(job.per_hour, job) for job in jobs))
    yield ("per 1,000 steps", *(_thousand(job) for job in jobs))
    yield ("total", *(_dollars(job.total, job) for job in jobs))
    yield ("idle, train", *(_idle(job, trains=True) for job in jobs))
    yield ("idle, data", *(_idle(job, trains=False) for job in jobs))
    work = "sample" if comparison.is_per_sample else "step"
    yield (f"price per {work}", *_changes(comparison.changes))


def _hosts(job: ComparedJob, *, trains: bool) -> str:
    return " and ".join(each.hosts for each in job.groups if each.trains is trains) or "-"


def _step(job: ComparedJob) -> str:
    if job.step is None:
        return _UNKNOWN
    half = job.step.half_width
    around = "" if half is None else f" +- {half * 1e3:.2g}"
    return f"{job.step.mean * 1e3:,.4g}{around} ms"


def _number(value: float | None) -> str:
    return _UNKNOWN if value is None else short_number(value)


def _dollars(value: float | None, job: ComparedJob) -> str:
    mark = "*" if job.is_priced_by_type and value is not None else ""
    return f"{dollars_text(value)}{mark}"


def _thousand(job: ComparedJob) -> str:
    if job.per_step is None:
        return _UNKNOWN
    return f"${job.per_step * 1000:,.4g}{'*' if job.is_priced_by_type else ''}"


def _idle(job: ComparedJob, *, trains: bool) -> str:
    texts = [_idle_group(each) for each in job.groups if each.trains is trains]
    return " and ".join(texts) or "-"


def _idle_group(group: ComparedGroup) -> str:
    shares = (("CPU", group.idle_cpu), ("GPU", group.idle_gpu))
    known = [f"{name} {share:.0%}" for name, share in shares if share is not None]
    return ", ".join(known) or _UNKNOWN


def _changes(changes: Sequence[PriceChange | None]) -> Iterator[str]:
    yield "-"
    for each in changes[1:]:
        yield _UNKNOWN if each is None else change_text(each)


def change_text(change: PriceChange) -> str:
    """Return a change with its interval: "-46% (-47% to -45%)"."""
    text = f"{change.expected:+.0%}"
    if change.low is None or change.high is None:
        return text
    return f"{text} ({change.low:+.0%} to {change.high:+.0%})"


def _notes(comparison: Comparison) -> Iterator[str]:
    jobs = comparison.jobs
    dates = sorted({date for job in jobs for date in job.price_as_of})
    if dates:
        yield f"Prices: on demand, of {', '.join(dates)}; storage and traffic are not included."
    if old := dict.fromkeys(name for job in jobs for name in job.old_prices):
        yield old_price_note(old)
    if any(job.is_priced_by_type for job in jobs):
        yield (
            "* ran on this machine, where nothing is billed: the price is that of the instance "
            "types that the job names, the time is that of this machine."
        )
    if any(job.step and job.step.error is not None for job in jobs):
        yield (
            "Intervals of 95 %: standard error of the step times' batch means (at most 20 "
            "windows of steps); for prices, of the ratio's logarithm."
        )
    if any(job.step and job.step.error is None for job in jobs):
        yield "No interval where a job has fewer than four windows of steps."
    if any(job.step is None for job in jobs):
        yield (
            "A step is timed in jobs that read with launcher.data, train a task, or print Keras' "
            "time per step."
        )
    if comparison.is_per_sample:
        yield "The jobs' steps have different numbers of samples: compared per sample."
