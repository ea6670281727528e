"""The state of a running job in words, from its description and its hosts' events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from launcher.client.catalogue import dollars_text
from launcher.client.jobs.durations import readable
from launcher.client.jobs.group_hosts import HostGroup
from launcher.client.jobs.job_progress import JobProgress, TrainingProgress

if TYPE_CHECKING:
    from launcher.shared import TrainingJobDescription


@dataclass(frozen=True, kw_only=True)
class StateText:
    """Formats the state of a job; names of groups are as the job gives them.

    dollars: the cost of a number of seconds of training; None where jobs cost nothing, and it
    returns None where prices are unknown.
    """

    progress: JobProgress
    dollars: Callable[[float], float | None] | None

    def head(self, now: TrainingJobDescription) -> str:
        """Return the job's state, age, progress and cost."""
        age = _seconds_since(now["CreationTime"])
        return "  ".join([str(now["SecondaryStatus"]), readable(age), *self._facts(now)])

    def groups(self) -> list[str]:
        """Return the hosts of each group and the use of their CPUs and GPUs."""
        return [self._group(group) for group in self.progress.groups]

    def sentence(self, now: TrainingJobDescription) -> str:
        """Return the state in one line, for a log."""
        return "; ".join([self.head(now), *self.groups()])

    def _facts(self, now: TrainingJobDescription) -> Iterator[str]:
        if self.progress.training is not None:
            yield from _training(self.progress.training)
        elif self.progress.phase is not None:
            yield self.progress.phase
        started = now.get("TrainingStartTime")
        if self.dollars is not None and started is not None:
            cost = self.dollars(_seconds_since(started))
            if cost is not None:
                yield dollars_text(cost)

    def _group(self, group: HostGroup) -> str:
        count = len(group.hosts)
        used = {"CPU": self.progress.cpu_of(group), "GPU": self.progress.gpu_of(group)}
        shares = (f"  {name} {share:.0%}" for name, share in used.items() if share is not None)
        return f"{group.name}: {count} host{'s' * (count != 1)}{''.join(shares)}"


def _training(training: TrainingProgress) -> Iterator[str]:
    of = "" if training.steps is None else f"/{training.steps}"
    yield f"epoch {training.epoch}  step {training.step}{of}"
    if training.steps_per_second is not None:
        yield f"{training.steps_per_second:.3g} steps/s"
    if training.wait_share is not None:
        yield f"{training.wait_share:.0%} waiting for data"
    if training.remaining_seconds is not None:
        yield f"{readable(training.remaining_seconds)} left"


def _seconds_since(moment: datetime) -> float:
    return (datetime.now(timezone.utc) - moment).total_seconds()
