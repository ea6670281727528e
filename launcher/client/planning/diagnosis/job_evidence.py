"""Everything known about a running or finished job, for the judge and the planner.

Below it, the mean time of its steps with its uncertainty, from windows of steps over time. Pure.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from launcher.shared import Evidence


@dataclass(frozen=True, kw_only=True)
class UsePoint:
    """The use of one host at a time: shares from 0 to 1, of its `cpus` and accelerators.

    gpus: of each accelerator. machine: of the CPUs of its machine, by all processes; own: by its.
    """

    time: float
    cpu: float | None = None
    gpu: float | None = None
    cpus: int | None = None
    gpus: tuple[float, ...] = ()
    machine: float | None = None
    own: float | None = None


@dataclass(frozen=True, kw_only=True)
class JobEvidence(Evidence):
    """The evidence on a job, with its steps and where all that is from.

    read_on: the day on which it was read. bills: whether its hosts cost money.
    step, samples_per_step: of all ranks; None if unknown.
    measured: the use of each host over time, where CloudWatch has it.
    sources: where the figures come from.
    missing: what could not be read, and why.
    """

    status: str
    region: str
    read_on: date
    bills: bool
    step: MeanStepTime | None = None
    samples_per_step: float | None = None
    measured: Mapping[str, Sequence[UsePoint]] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def step_seconds(self) -> float | None:
        """Mean seconds of a step; None if unknown."""
        return None if self.step is None else self.step.mean


#: Windows at the start that are left out if others remain: compilation, caches, the first batch.
_WARM_UP = 1
#: Batches at most: with more they depend on each other, with fewer the error is less certain.
_BATCHES = 20
#: Fewer batches than this have no error worth telling.
_FEWEST_BATCHES = 3
#: Student's t for a two-sided interval of 95 %, by degrees of freedom from 1.
_T95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093),
)


@dataclass(frozen=True, slots=True)
class StepWindow:
    """Consecutive steps, and the seconds that they took together."""

    steps: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class MeanStepTime:
    """Mean seconds of a step. error: the standard error of the mean; None from too few windows.

    steps: number of steps behind the mean. batches: number of batch means behind the error.
    drift: change from the first half of the batches to the second; None from too few.
    """

    mean: float
    error: float | None
    steps: int
    batches: int
    drift: float | None = None

    @property
    def half_width(self) -> float | None:
        """Half of the 95 % interval of the mean, in seconds; None without an error."""
        return None if self.error is None else self.error * t95(self.batches)


def mean_step_time(windows: Sequence[StepWindow]) -> MeanStepTime | None:
    """Return the mean time of the steps in windows, by time; None without any step.

    Its uncertainty is the standard error of batch means: the windows are joined to at most 20
    batches in their order, so that what slows several windows in a row (a busy storage, an
    evaluation) is in one batch and not taken for independent evidence. Batches count by their
    numbers of steps.
    """
    usable = [each for each in windows if each.steps > 0 and each.seconds > 0]
    kept = usable[_WARM_UP:] or usable
    if not kept:
        return None
    batches = _joined(kept)
    steps = sum(each.steps for each in kept)
    mean = sum(each.seconds for each in kept) / steps
    return MeanStepTime(
        mean=mean,
        error=_error(batches, mean),
        steps=steps,
        batches=len(batches),
        drift=_drift(batches),
    )


def t95(batches: int) -> float:
    """Return Student's t of the 95 % interval of the mean of so many batches (2 to 20)."""
    return _T95[min(max(batches, 2), _BATCHES) - 2]


def _joined(windows: Sequence[StepWindow]) -> list[StepWindow]:
    """Return the windows joined to at most _BATCHES, in their order."""
    count = min(len(windows), _BATCHES)
    places = [number * len(windows) // count for number in range(count + 1)]
    parts = [windows[first:last] for first, last in itertools.pairwise(places)]
    return [
        StepWindow(sum(each.steps for each in part), sum(each.seconds for each in part))
        for part in parts
    ]


def _drift(batches: Sequence[StepWindow]) -> float | None:
    middle = len(batches) // 2
    if middle < _FEWEST_BATCHES:
        return None
    first, second = (
        sum(each.seconds for each in half) / sum(each.steps for each in half)
        for half in (batches[:middle], batches[middle:])
    )
    return second / first - 1


def _error(batches: Sequence[StepWindow], mean: float) -> float | None:
    """Return the standard error of a mean that is weighted by steps (a ratio estimate)."""
    count, steps = len(batches), sum(each.steps for each in batches)
    if count < _FEWEST_BATCHES:
        return None
    squares = sum((each.seconds - mean * each.steps) ** 2 for each in batches)
    return math.sqrt(count / (count - 1) * squares) / steps
