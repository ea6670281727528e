"""The best cuts of a chain, by dynamic programming: exact, for one stage on each rank.

For *speed* it is the predicted time of a step, the sum of all stages and (m - 1) times the slowest:
the first microbatch passes through all, and each further one comes out when the slowest stage is
done with it (as in DAPPLE, arXiv 2007.01045, and Alpa, arXiv 2201.12023). For *memory* it is the
most bytes of a stage, with the microbatches that its schedule has under way in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from launcher.contract import Objective, Schedule
from launcher.errors import ParallelError
from launcher.parallel.memory import under_way
from launcher.parallel.partitioning.chain import Chain, Table
from launcher.parallel.partitioning.paths import bottleneck, shortest


@dataclass(frozen=True, kw_only=True)
class Cuts:
    """Where a chain is cut. places: the number of the first module of each stage but the first.

    step: seconds; memory: bytes of the stage with the most.
    """

    places: tuple[int, ...]
    step: float
    memory: float


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A chain, and how it is to run. cap: bytes that a stage may have."""

    chain: Chain
    partitions: int
    microbatches: int
    schedule: Schedule = Schedule.INTERLEAVED
    cap: float = np.inf

    def waiting(self, stage: int) -> int:
        """Microbatches that are under way in a stage at once."""
        is_simple = self.schedule is Schedule.SIMPLE
        return under_way(self.microbatches, self.partitions, stage, simple=is_simple)

    def memory(self, stage: int) -> Table:
        """Bytes of a stage of that number."""
        return self.chain.memory(self.waiting(stage), self.microbatches)

    def evaluate(self, places: Sequence[int]) -> Cuts:
        """What cuts at some places cost."""
        stages = list(self.chain.stages(places))
        times = [float(self.chain.seconds[stage]) for stage in stages]
        memory = [float(self.memory(number)[stage]) for number, stage in enumerate(stages)]
        step = sum(times) + (self.microbatches - 1) * max(times)
        return Cuts(places=tuple(places), step=step, memory=max(memory))


def best(problem: Problem, objective: Objective) -> Cuts:
    """The best cuts; of those with the least memory, the fastest. Raises ParallelError."""
    if problem.partitions > len(problem.chain):
        raise ParallelError(
            f"{len(problem.chain)} modules cannot be cut into {problem.partitions} stages: use "
            f"{len(problem.chain)} or fewer"
        )
    memory = [problem.memory(stage) for stage in range(problem.partitions)]
    least = bottleneck(memory)
    if np.isinf(least.cost) or least.cost > problem.cap:
        raise ParallelError(_infeasible(problem, least.cost))
    cap = problem.cap if objective is Objective.SPEED else least.cost
    seconds = [np.where(table <= cap, problem.chain.seconds, np.inf) for table in memory]
    return problem.evaluate(_fastest(seconds, problem.microbatches))


def _infeasible(problem: Problem, least: float) -> str:
    if np.isinf(least):
        return (
            f"the model has fewer than {problem.partitions - 1} places where it can be cut, so not "
            f"{problem.partitions} stages: use fewer"
        )
    more = _least_partitions(problem)
    mend = f"use {more}" if more else "no number of stages would do: recompute, or shard"
    return (
        f"{problem.partitions} stages need {least:.0f} bytes at least, and may have "
        f"{problem.cap:.0f}: {mend}"
    )


def _least_partitions(problem: Problem) -> int | None:
    """The fewest stages that a model of this chain fits into.

    From the last stage backwards, since what is under way in a stage depends on how many follow it.
    """
    length = len(problem.chain)
    does_fit = np.arange(length + 1) == length  # what begins at such a module, in so many stages
    fits: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
    known = 0
    for count in range(1, length + 1):
        waiting = (deeper := replace(problem, partitions=count)).waiting(0)
        if waiting != known:
            fits, known = deeper.memory(0) <= problem.cap, waiting
        does_fit = (fits & does_fit).any(axis=1)
        if does_fit[0]:
            return count
    return None


def _fastest(seconds: Sequence[Table], microbatches: int) -> tuple[int, ...]:
    """The cuts with the least sum + (m - 1) x greatest.

    Sums grow as the greatest is bound to be less. The least greatest there can be gives a first
    answer, and so a bound that a better one keeps. From there it goes to lower and lower bounds,
    until even the least sum with the least greatest would be worse than the best.
    """
    weight = microbatches - 1
    lowest = bottleneck(seconds).cost
    chosen = shortest([np.where(table <= lowest, table, np.inf) for table in seconds])
    step = chosen.cost + weight * _greatest(seconds, chosen.cuts)
    bound = (step - shortest(seconds).cost) / weight if weight else np.inf
    while bound > lowest:
        found = shortest([np.where(table < bound, table, np.inf) for table in seconds])
        if not found.cost + weight * lowest < step:
            break
        bound = _greatest(seconds, found.cuts)
        if found.cost + weight * bound < step:
            step, chosen = found.cost + weight * bound, found
    return chosen.cuts


def _greatest(tables: Sequence[Table], cuts: Sequence[int]) -> float:
    ends = (*cuts, len(tables[0]) - 1)
    return max(
        float(table[stage])
        for table, stage in zip(tables, zip((0, *cuts), ends, strict=True), strict=True)
    )
