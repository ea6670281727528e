"""The optimal cuts of a chain with one stage per rank, by dynamic programming; exact.

For *speed* the objective is the time of a step: the sum over all stages plus (m - 1) times the
slowest. The first microbatch passes through all stages, and each further one leaves when the
slowest stage is done with it (as in DAPPLE, arXiv 2007.01045, and Alpa, arXiv 2201.12023). Where
all go forward before any goes back, the slowest stage forward and the slowest backward both count.
For *memory* it is the most bytes of a stage, with as many in-flight microbatches as its schedule
has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from launcher.errors import ParallelError
from launcher.parallel.partitioning.chain import Chain, Table
from launcher.shared import Objective, Schedule, under_way


@dataclass(frozen=True, kw_only=True)
class Cuts:
    """The cuts of a chain. places: the number of the first module of each stage but the first.

    step: seconds; memory: bytes of the stage with the most.
    """

    places: tuple[int, ...]
    step: float
    memory: float


@dataclass(frozen=True, kw_only=True)
class CutProblem:
    """A chain and the settings it runs with. cap: bytes allowed per stage."""

    chain: Chain
    partitions: int
    microbatches: int
    schedule: Schedule = Schedule.INTERLEAVED
    cap: float = np.inf

    def waiting(self, stage: int) -> int:
        """Return the number of in-flight microbatches of a stage."""
        is_simple = self.schedule is Schedule.SIMPLE
        return under_way(self.microbatches, self.partitions, stage, simple=is_simple)

    def memory(self, stage: int) -> Table:
        """Return the bytes of a stage with this number."""
        return self.chain.memory(self.waiting(stage), self.microbatches)

    @property
    def ways(self) -> tuple[Table, ...]:
        """Seconds of a stage per microbatch, for each phase in which microbatches queue."""
        chain = self.chain
        if self.schedule is not Schedule.SIMPLE:
            return (chain.seconds,)
        over = (chain.ends[:, None] + chain.ends[None, :]) / 2  # half of it in each direction
        return chain.forward + over, chain.backward + over

    def evaluate(self, places: Sequence[int]) -> Cuts:
        """Return the costs of cuts at these places."""
        stages = list(self.chain.stages(places))
        memory = [float(self.memory(number)[stage]) for number, stage in enumerate(stages)]
        once = sum(float(self.chain.seconds[stage]) for stage in stages)
        slowest = sum(max(float(way[stage]) for stage in stages) for way in self.ways)
        step = once + (self.microbatches - 1) * slowest
        return Cuts(places=tuple(places), step=step, memory=max(memory))


def best(problem: CutProblem, objective: Objective) -> Cuts:
    """Return the fastest cuts, or the fastest of those with the least memory.

    Raises ParallelError where there are none.
    """
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
    return problem.evaluate(_fastest(seconds, problem.ways, problem.microbatches - 1).cuts)


def _infeasible(problem: CutProblem, least: float) -> str:
    if np.isinf(least):
        return (
            f"the model cannot be cut into {problem.partitions} stages, since it has fewer than "
            f"{problem.partitions - 1} places where it can be cut: use fewer stages"
        )
    more = _least_partitions(problem)
    fix = f"use {more}" if more else "no number of stages is enough: recompute, or shard"
    return (
        f"{problem.partitions} stages need at least {least:.0f} bytes per rank, but the cap is "
        f"{problem.cap:.0f}: {fix}"
    )


def _least_partitions(problem: CutProblem) -> int | None:
    """Return the fewest stages that the model fits into, or None.

    Works backwards from the last stage, since the in-flight microbatches of a stage depend on how
    many stages follow it.
    """
    length = len(problem.chain)
    does_fit = np.arange(length + 1) == length  # the modules from each one on, in `count` stages
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


def _fastest(
    seconds: Sequence[Table], ways: Sequence[Table], weight: int, limit: float = np.inf
) -> Path:
    """Return the cuts with the least sum + weight x maximum, the maxima of all ways added up.

    A tighter bound on the maximum increases the sum. The least possible maximum gives a first
    answer, and so an upper bound for any better one. From there the bound is lowered step by step,
    until even the least sum with the least maximum would be worse than the best so far. limit: a
    cost beyond which any cuts will do.
    """
    if not ways or not weight:
        return shortest(seconds)
    first, *rest = ways

    def within(allowed: npt.NDArray[np.bool_], most: float) -> Path:
        return _fastest([np.where(allowed, each, np.inf) for each in seconds], rest, weight, most)

    lowest = bottleneck([np.where(np.isinf(each), np.inf, first) for each in seconds]).cost
    found = within(first <= lowest, limit - weight * lowest)
    bound = _greatest(first, found.cuts)
    chosen = Path(cost=found.cost + weight * bound, cuts=found.cuts)
    bound = (min(chosen.cost, limit) - shortest(seconds).cost) / weight
    while bound > lowest:
        least = min(chosen.cost, limit) - weight * lowest
        found = within(first < bound, least)
        if not found.cost < least:
            break
        bound = _greatest(first, found.cuts)
        if found.cost + weight * bound < chosen.cost:
            chosen = Path(cost=found.cost + weight * bound, cuts=found.cuts)
    return chosen


def _greatest(table: Table, cuts: Sequence[int]) -> float:
    ends = (*cuts, len(table) - 1)
    return max(float(table[stage]) for stage in zip((0, *cuts), ends, strict=True))


@dataclass(frozen=True, kw_only=True)
class Path:
    """Cuts, with the maximum or the sum of their stages' costs."""

    cost: float
    cuts: tuple[int, ...]


def bottleneck(tables: Sequence[Table]) -> Path:
    """Return the cuts that minimise the maximum stage cost. tables: costs for each stage number."""
    return _search(tables, np.maximum)


def shortest(tables: Sequence[Table]) -> Path:
    """Return the cuts that minimise the sum of stage costs."""
    return _search(tables, np.add)


def _search(tables: Sequence[Table], together: Callable[..., Table]) -> Path:
    """Extend the best costs of the first modules stage by stage, then trace the cuts back."""
    costs: npt.NDArray[np.float64] = tables[0][0]
    choices = []
    for table in tables[1:]:
        every = together(costs[:, None], table)
        choices.append(np.argmin(every, axis=0))
        costs = np.min(every, axis=0)
    cuts: list[int] = []
    end = len(costs) - 1
    for choice in reversed(choices):
        end = int(choice[end])
        cuts.insert(0, end)
    return Path(cost=float(costs[-1]), cuts=tuple(cuts))
