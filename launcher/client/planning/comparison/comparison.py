"""Jobs side by side: step time, throughput, prices, idle machines, and the change of price."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from launcher.client.catalogue import dollars_text
from launcher.client.jobs import STATE_COLOURS, Job
from launcher.client.planning.comparison.compared_job import (
    ComparedGroup,
    ComparedJob,
    read_compared_job,
)
from launcher.client.planning.diagnosis.job_evidence import MeanStepTime, t95
from launcher.client.sessions import session_of
from launcher.client.show import Table, short_number, table_html, table_text
from launcher.errors import Problem, SpecError


@dataclass(frozen=True, kw_only=True)
class PriceChange:
    """A change of the price of the same work, as a share: -0.46 is 46 % less.

    low, high: the 95 % interval; None where a job has too few windows of steps.
    """

    expected: float
    low: float | None = None
    high: float | None = None


def price_change(
    before: MeanStepTime,
    after: MeanStepTime,
    *,
    per_hour_before: float,
    per_hour_after: float,
    work_ratio: float = 1.0,
) -> PriceChange:
    """Return the change of the price per step from one job to another.

    per_hour_before, per_hour_after: USD of all hosts. work_ratio: samples of a step of the later
    job over those of the earlier one, for the change of the price per sample.

    Prices are exact, so the uncertainty is that of the two mean step times: their relative standard
    errors add in squares, and the 95 % interval is that of the ratio's logarithm (delta method),
    with Student's t of the job that has fewer batches.
    """
    ratio = per_hour_after * after.mean / (per_hour_before * before.mean) / work_ratio
    if before.error is None or after.error is None:
        return PriceChange(expected=ratio - 1)
    spread = math.hypot(before.error / before.mean, after.error / after.mean)
    factor = math.exp(t95(min(before.batches, after.batches)) * spread)
    return PriceChange(expected=ratio - 1, low=ratio / factor - 1, high=ratio * factor - 1)


#: Steps whose numbers of samples differ by less are the same work: ranks may get one batch more.
_SAME_WORK = 0.01


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Jobs, and how time and price of the same work change from the first to each of the others."""

    jobs: tuple[ComparedJob, ...]

    @property
    def is_per_sample(self) -> bool:
        """True if prices are compared per sample, as the steps have different numbers of them."""
        first, *others = (job.samples_per_step for job in self.jobs)
        return any(first and each and abs(each / first - 1) > _SAME_WORK for each in others)

    @property
    def changes(self) -> tuple[PriceChange | None, ...]:
        """The change of price of each job, in comparison with the first; None if unknown."""
        first = self.jobs[0].per_hour
        return (None, *(self._change(job, first, job.per_hour) for job in self.jobs[1:]))

    @property
    def time_changes(self) -> tuple[PriceChange | None, ...]:
        """The change of the time of the same work, which needs no price."""
        return (None, *(self._change(job, 1.0, 1.0) for job in self.jobs[1:]))

    @property
    def equal_cost(self) -> float | None:
        """USD that each job has cost at least; None if that of one is unknown."""
        totals = [job.total for job in self.jobs]
        return min((each or 0.0 for each in totals), default=0.0) or None

    def metrics_at_equal_cost(self) -> list[dict[str, float]]:
        """Return for each job the metrics that all have, when each had cost as much."""
        if self.equal_cost is None:
            return [{} for _ in self.jobs]
        found = [job.metrics_at(self.equal_cost) for job in self.jobs]
        shared = [name for name in found[0] if all(name in each for each in found)]
        return [{name: each[name] for name in shared} for each in found]

    def _change(
        self, job: ComparedJob, per_hour_before: float | None, per_hour_after: float | None
    ) -> PriceChange | None:
        first = self.jobs[0]
        if first.step is None or job.step is None or not per_hour_before or not per_hour_after:
            return None
        ratio = 1.0
        if self.is_per_sample:
            if not first.samples_per_step or not job.samples_per_step:
                return None
            ratio = job.samples_per_step / first.samples_per_step
        return price_change(
            first.step,
            job.step,
            per_hour_before=per_hour_before,
            per_hour_after=per_hour_after,
            work_ratio=ratio,
        )

    @property
    def table(self) -> Table:
        """A row for each figure, with a column for each job."""
        head, *rows = _rows(self)
        notes = [("", note) for note in _notes(self)]
        return Table(columns=head, rows=rows, notes=notes, colours=STATE_COLOURS)

    def __str__(self) -> str:
        return table_text(self.table)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table_html(self.table)

    def to_plain(self) -> dict[str, Any]:
        """Return plain values, as `launcher compare --json` prints them."""
        rows = zip(
            self.jobs, self.changes, self.time_changes, self.metrics_at_equal_cost(), strict=True
        )
        return {
            "jobs": [
                {
                    **asdict(job),
                    "metrics": metrics,
                    "per_hour": job.per_hour,
                    "per_step": job.per_step,
                    "total": job.total,
                    "samples_per_second": job.samples_per_second,
                    "time_change": faster and asdict(faster),
                    "price_change": change and asdict(change),
                }
                for job, change, faster, metrics in rows
            ],
            "metrics_at_dollars": self.equal_cost,
            "price_change_per": "sample" if self.is_per_sample else "step",
        }


def compare(*jobs: Job | str) -> Comparison:
    """Put jobs side by side, and say what the same work costs in each.

    Prices are those of the instance types, also for jobs on this machine, whose times are those of
    this machine.

    jobs: two or more jobs or their names; the first is the one that the others are compared with.

    Raises SpecError for fewer than two, JobNotFound, and the platform's error.
    """
    if len(jobs) < 2:
        problem = Problem(
            what=f"{len(jobs)} jobs cannot be compared", where="jobs", fix="name two or more"
        )
        raise SpecError([problem])
    known = (Job(each, session_of(each)) if isinstance(each, str) else each for each in jobs)
    return Comparison(jobs=tuple(map(read_compared_job, known)))


_UNKNOWN = "unknown"


def _rows(comparison: Comparison) -> Iterator[tuple[str, ...]]:
    jobs = comparison.jobs
    yield ("", *(job.job_name for job in jobs))
    yield ("status", *(job.status for job in jobs))
    yield ("place", *(job.place for job in jobs))
    yield ("train", *(_hosts(job, trains=True) for job in jobs))
    yield ("data", *(_hosts(job, trains=False) for job in jobs))
    yield ("step", *map(_step, jobs))
    yield ("samples/s", *(_number(job.samples_per_second) for job in jobs))
    yield ("per hour", *(_dollars(job.per_hour, job) for job in jobs))
    yield ("per 1,000 steps", *(_thousand(job) for job in jobs))
    yield ("total", *(_dollars(job.total, job) for job in jobs))
    yield ("idle, train", *(_idle(job, trains=True) for job in jobs))
    yield ("idle, data", *(_idle(job, trains=False) for job in jobs))
    metrics = comparison.metrics_at_equal_cost()
    for name in metrics[0]:
        at = f"{name} at {dollars_text(comparison.equal_cost)}"
        yield (at, *(_number(each[name]) for each in metrics))
    work = "sample" if comparison.is_per_sample else "step"
    yield (f"time per {work}", *_changes(comparison.time_changes))
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
    yield from dict.fromkeys(f"Prices: {each}." for job in jobs for each in job.prices)
    yield "Storage and traffic are not included."
    trained = dict.fromkeys(_hosts(job, trains=True) for job in jobs)
    if len(trained) > 1:
        yield f"They trained on unequal hosts, {'; '.join(trained)}: a change is of these as well."
    if any(job.place.endswith("spot") for job in jobs):
        yield "On spot instances an hour costs less than shown; the total has the billed seconds."
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
