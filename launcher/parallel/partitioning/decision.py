"""Decision on a model's cuts: from a profile to a partition file with predicted costs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

from launcher.errors import ParallelError
from launcher.parallel.partitioning.chain import Chain
from launcher.parallel.partitioning.optimum import CutProblem, best
from launcher.parallel.partitioning.simulated_search import ALL, Bounded, fastest, search
from launcher.parallel.profiling import Profile, median_profile
from launcher.shared import (
    Fingerprint,
    Link,
    Objective,
    Orders,
    PartitionChoice,
    PartitionFile,
    Schedule,
    Sharing,
    StagePrediction,
    play,
    predict_stages,
    step_spread,
)

__all__ = ["PartitionQuestion", "decide"]

#: Effort for settings that are only listed beside the chosen one; see `search`.
_LESS = 10**6


@dataclass(frozen=True, kw_only=True)
class PartitionQuestion:
    """The settings that a model is partitioned for. memory_cap: bytes allowed per rank.

    replicas: of the model, which average their gradients. shard_degree: those that share a stage.
    objective, schedule: also by their names.
    """

    partitions: int
    microbatches: int
    replicas: int = 1
    shard_degree: int = 1
    objective: Objective = Objective.SPEED
    schedule: Schedule = Schedule.INTERLEAVED
    virtual_stages: int = 1
    memory_cap: int | None = None
    precision: str | None = None
    recomputed: tuple[str, ...] = ()
    task: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "objective", Objective(self.objective))
        object.__setattr__(self, "schedule", Schedule(self.schedule))
        object.__setattr__(self, "recomputed", tuple(self.recomputed))
        _ = self.orders  # raises for settings that the schedule does not support

    @cached_property
    def orders(self) -> Orders:
        """The schedule's orders of actions."""
        return Orders(
            schedule=self.schedule,
            ranks=self.partitions,
            microbatches=self.microbatches,
            virtual_stages=self.virtual_stages,
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The fields as a partition file has them."""
        named = {each.name: getattr(self, each.name) for each in fields(PartitionQuestion)}
        return {**named, "objective": self.objective.value, "schedule": self.schedule.value}

    @property
    def cap(self) -> float:
        """The memory cap in bytes; infinite if there is none."""
        return math.inf if self.memory_cap is None else self.memory_cap


def decide(
    profiles: Sequence[Profile], fingerprint: Fingerprint, link: Link, question: PartitionQuestion
) -> PartitionFile:
    """Return the best cuts of a model, by the medians of its profiles.

    Raises ParallelError where there are none.
    """
    profile = median_profile(profiles)
    chain = _chain(profile, link, question)
    found = _predicted(chain, question)
    cuts = found.cuts
    repeats = list(_repeats(profiles, link, question, cuts.places))
    steps = [each.step for each in repeats]
    spread = step_spread(chain, question.orders, cuts.places, found.stages)
    return PartitionFile(
        **question.settings,
        fingerprint=fingerprint,
        profile=profile.kind.value,
        device=profile.device,
        runs=profile.runs,
        link=link,
        modules=profile.modules,
        joints=profile.joints,
        ties=profile.ties,
        starts=tuple(profile.modules[place].name for place in cuts.places),
        stages=found.stages,
        step=found.step,
        spread=max(spread, (max(steps) - min(steps)) / 2),
        bound=cuts.bound,
        gap=cuts.gap,
        memory_gap=cuts.memory_gap,
        regret=max(each.regret for each in repeats),
        choices=tuple(_choices(chain, question, found)),
    )


class _Repeat(NamedTuple):
    """The cuts by one of several profiles: their step, and how much longer it is than the best."""

    step: float
    regret: float


def _repeats(
    profiles: Sequence[Profile], link: Link, question: PartitionQuestion, places: tuple[int, ...]
) -> Iterator[_Repeat]:
    for each in profiles:
        chain, orders = _chain(each, link, question), question.orders
        step = play(chain, orders, places, predict_stages(chain, orders, places)).seconds
        best_step = step
        if len(profiles) > 1 and question.objective is Objective.SPEED:
            best_step = min(step, _predicted(chain, question, _LESS).step)
        yield _Repeat(step, step / best_step - 1 if best_step else 0.0)


def _chain(profile: Profile, link: Link, question: PartitionQuestion) -> Chain:
    """Return the chain of a rank's costs."""
    whole = Chain(
        profile.modules, profile.joints, link, ties=profile.ties, replicas=question.replicas
    )
    sharing = Sharing.of_schedule(
        question.shard_degree, question.schedule.value, question.microbatches
    )
    own = sharing.per_rank(whole)
    return Chain(own.modules, own.joints, own.link, ties=own.ties, replicas=own.replicas)


class _Predicted(NamedTuple):
    """The best cuts for a question, and their predictions."""

    cuts: Bounded
    stages: tuple[StagePrediction, ...]
    step: float


def _predicted(chain: Chain, question: PartitionQuestion, effort: int = ALL) -> _Predicted:
    cuts = _cut(chain, question, effort)
    stages = predict_stages(chain, question.orders, cuts.places)
    return _Predicted(cuts, stages, play(chain, question.orders, cuts.places, stages).seconds)


def _cut(chain: Chain, question: PartitionQuestion, effort: int) -> Bounded:
    """Return the best cuts that are found, with a bound of how much better others may be."""
    orders, objective = question.orders, question.objective
    if question.virtual_stages > 1 or question.schedule is Schedule.ZERO_BUBBLE:
        return search(chain, orders, objective, cap=question.cap, effort=effort)
    problem = CutProblem(
        chain=chain,
        partitions=question.partitions,
        microbatches=question.microbatches,
        schedule=question.schedule,
        cap=question.cap,
    )
    near = best(problem, objective)  # with the least memory, if that is the objective
    cap = question.cap if objective is Objective.SPEED else near.memory
    # Where all go forward first, the formula is the step but for the exchanges of gradients.
    bound = near.step if question.schedule is Schedule.SIMPLE else 0.0
    return fastest(chain, orders, near.places, cap=cap, bound=bound, effort=effort)


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
        return _predicted(chain, question, _LESS)
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
