"""Jobs side by side: step time, throughput, prices, idle machines, and the change of price."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from launcher.client.jobs.job import Job
from launcher.client.planning.comparison.compared_job import ComparedJob, read_compared_job
from launcher.client.planning.comparison.price_change import PriceChange, price_change
from launcher.client.sessions.resolve import session_of
from launcher.errors import Problem, SpecError

#: Steps whose numbers of samples differ by less are the same work: ranks may get one batch more.
_SAME_WORK = 0.01


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Jobs, and how the price of the same work changes from the first to each of the others."""

    jobs: tuple[ComparedJob, ...]

    @property
    def is_per_sample(self) -> bool:
        """True if prices are compared per sample, as the steps have different numbers of them."""
        first, *others = (job.samples_per_step for job in self.jobs)
        return any(first and each and abs(each / first - 1) > _SAME_WORK for each in others)

    @property
    def changes(self) -> tuple[PriceChange | None, ...]:
        """The change of price of each job, in comparison with the first; None if unknown."""
        return (None, *(self._change(job) for job in self.jobs[1:]))

    def _change(self, job: ComparedJob) -> PriceChange | None:
        first = self.jobs[0]
        if first.step is None or job.step is None or not first.per_hour or not job.per_hour:
            return None
        ratio = 1.0
        if self.is_per_sample:
            if not first.samples_per_step or not job.samples_per_step:
                return None
            ratio = job.samples_per_step / first.samples_per_step
        return price_change(
            first.step,
            job.step,
            per_hour_before=first.per_hour,
            per_hour_after=job.per_hour,
            work_ratio=ratio,
        )

    def __str__(self) -> str:
        from launcher.client.planning.comparison.comparison_text import comparison_text

        return comparison_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from launcher.client.planning.comparison.comparison_text import comparison_html

        return comparison_html(self)

    def to_plain(self) -> dict[str, Any]:
        """Return plain values, as `launcher compare --json` prints them."""
        return {
            "jobs": [
                {
                    **asdict(job),
                    "per_hour": job.per_hour,
                    "per_step": job.per_step,
                    "total": job.total,
                    "samples_per_second": job.samples_per_second,
                    "price_change": change and asdict(change),
                }
                for job, change in zip(self.jobs, self.changes, strict=True)
            ],
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
