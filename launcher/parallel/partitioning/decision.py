"""Decision on a model's cuts: from a profile to a partition file with predicted costs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from launcher.errors import ParallelError
from launcher.parallel.partitioning.chain import Chain
from launcher.parallel.partitioning.optimum import CutProblem, Cuts, best
from launcher.parallel.partitioning.search import Bounded, search
from launcher.parallel.profiling.profile import Profile
from launcher.shared import Objective, Schedule
from launcher.shared.partitions.partition_file import (
    Fingerprint,
    PartitionChoice,
    PartitionFile,
    StagePrediction,
)
from launcher.shared.partitions.schedule_orders import Orders
from launcher.shared.partitions.stage_costs import Link, ModuleCost
from launcher.shared.partitions.timeline import simulate

__all__ = ["PartitionQuestion", "decide"]


@dataclass(frozen=True, kw_only=True)
class PartitionQuestion:
    """The settings that a model is partitioned for. memory_cap: bytes allowed per rank."""

    partitions: int
    microbatches: int
    objective: Objective = Objective.SPEED
    schedule: Schedule = Schedule.INTERLEAVED
    virtual_stages: int = 1
    memory_cap: int | None = None
    precision: str | None = None
    recomputed: tuple[str, ...] = ()
    task: str = ""

    def __post_init__(self) -> None:
        _ = self.orders  # raises for settings that the schedule does not support

    @property
    def orders(self) -> Orders:
        """The schedule's orders of actions."""
        return Orders(
            schedule=self.schedule,
            ranks=self.partitions,
            microbatches=self.microbatches,
            virtual_stages=self.virtual_stages,
        )

    @property
    def cap(self) -> float:
        """The memory cap in bytes; infinite if there is none."""
        return math.inf if self.memory_cap is None else self.memory_cap


def decide(
    profile: Profile, fingerprint: Fingerprint, link: Link, question: PartitionQuestion
) -> PartitionFile:
    """Return the best cuts of a model. Raises ParallelError where there are none."""
    chain = Chain(profile.modules, profile.joints, link)
    found = _predicted(chain, question)
    cuts = found.cuts
    return PartitionFile(
        task=question.task,
        fingerprint=fingerprint,
        objective=question.objective.value,
        partitions=question.partitions,
        virtual_stages=question.virtual_stages,
        microbatches=question.microbatches,
        schedule=question.schedule.value,
        memory_cap=question.memory_cap,
        precision=question.precision,
        recomputed=question.recomputed,
        profile=profile.kind.value,
        device=profile.device,
        runs=profile.runs,
        link=link,
        modules=profile.modules,
        joints=profile.joints,
        starts=tuple(profile.modules[place].name for place in cuts.places),
        stages=found.stages,
        step=found.step,
        spread=_spread(chain, question.orders, cuts),
        gap=cuts.gap if isinstance(cuts, Bounded) else 0.0,
        choices=tuple(_choices(chain, question, found)),
    )


class _Predicted(NamedTuple):
    """The best cuts for a question, and their predictions."""

    cuts: Cuts
    stages: tuple[StagePrediction, ...]
    step: float


def _predicted(chain: Chain, question: PartitionQuestion) -> _Predicted:
    cuts = _cut(chain, question)
    stages = tuple(_stages(chain, question.orders, cuts))
    return _Predicted(cuts, stages, simulate(question.orders, stages).seconds)


def _cut(chain: Chain, question: PartitionQuestion) -> Cuts:
    """Return the optimal cuts with one stage per rank, else the best that a search finds."""
    if question.virtual_stages > 1 or question.schedule is Schedule.ZERO_BUBBLE:
        return search(chain, question.orders, question.objective, cap=question.cap)
    problem = CutProblem(
        chain=chain,
        partitions=question.partitions,
        microbatches=question.microbatches,
        schedule=question.schedule,
        cap=question.cap,
    )
    return best(problem, question.objective)


def _stages(chain: Chain, orders: Orders, cuts: Cuts) -> Iterator[StagePrediction]:
    for number, (first, last) in enumerate(chain.stages(cuts.places)):
        held, place = number % orders.ranks, number // orders.ranks
        waiting = max(counts[place] for counts in orders.under_way[held])
        ends = [chain.modules[end] for end in (first, last) if 0 < end < len(chain)]
        yield StagePrediction(
            start=chain.modules[first].name,
            modules=last - first,
            forward=float(chain.forward[first, last]),
            backward=float(chain.backward[first, last]),
            sending=float(chain.ends[first] + chain.ends[last]),
            memory=int(chain.memory(waiting, orders.microbatches)[first, last]),
            sent=sum(_sent(each, is_left=each is chain.modules[first]) for each in ends),
        )


def _sent(module: ModuleCost, *, is_left: bool) -> int:
    """Return the bytes that a stage sends over one end: gradients to the left, else activations."""
    return (module.returning if is_left else module.crossing) or 0


def _spread(chain: Chain, orders: Orders, cuts: Cuts) -> float:
    """Return the spread of the predicted step.

    Modules vary independently of each other, but the microbatches of a rank vary together.
    """
    stages = list(chain.stages(cuts.places))
    squares = [sum(each.spread**2 for each in chain.modules[a:b]) for a, b in stages]

    def busy(rank: int) -> float:
        return float(sum(chain.seconds[stage] for stage in stages[rank :: orders.ranks]))

    busiest = max(range(orders.ranks), key=busy)
    of_busiest = math.sqrt(sum(squares[busiest :: orders.ranks]))
    return math.sqrt(sum(squares)) + (orders.microbatches - 1) * of_busiest


def _choices(
    chain: Chain, question: PartitionQuestion, own: _Predicted
) -> Iterator[PartitionChoice]:
    """Yield the predictions for neighbouring settings, with microbatches of the same size.

    own: the prediction for the question itself.
    """
    for change in _changes(question):
        with suppress(ParallelError):  # the schedule does not support such numbers
            other = replace(question, **change)
            yield _choice(other, own if other == question else _found(chain, other))


def _found(chain: Chain, question: PartitionQuestion) -> _Predicted | None:
    """Return the prediction, or None where the model does not fit."""
    try:
        return _predicted(chain, question)
    except ParallelError:
        return None


def _choice(question: PartitionQuestion, found: _Predicted | None) -> PartitionChoice:
    return PartitionChoice(
        objective=question.objective.value,
        partitions=question.partitions,
        microbatches=question.microbatches,
        step=found.step if found else None,
        memory=int(found.cuts.memory) if found else None,
    )


def _changes(question: PartitionQuestion) -> Iterator[dict[str, Any]]:
    yield from ({"objective": each} for each in Objective)
    for name in ("partitions", "microbatches"):
        count = getattr(question, name)
        yield from ({name: each} for each in (count // 2, count * 2) if each)
