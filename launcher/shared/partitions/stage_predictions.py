"""Predictions for the stages of a cut model: arithmetic on the costs of its modules."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from launcher.shared.partitions.schedule_orders import Orders
from launcher.shared.partitions.stage_costs import LATER, Joint, Link, ModuleCost, Tie
from launcher.shared.partitions.timeline import RankTie, Timeline, simulate

#: All-reduces in which gradients are added or averaged; see `Link.all_reduce`.
MESSAGES = 2


@dataclass(frozen=True, kw_only=True)
class StagePrediction:
    """Predicted costs of one stage.

    start: its first module. modules: how many. forward, backward: seconds of one microbatch.
    sending: seconds of transfers over its ends. memory: peak bytes. sent: bytes per microbatch.
    exchange: seconds of a step to average its gradients with those of its replicas. update: seconds
    of the optimizer's step.
    """

    start: str
    modules: int
    forward: float
    backward: float
    sending: float
    memory: int
    sent: int
    exchange: float = field(default=0.0, metadata=LATER)
    update: float = field(default=0.0, metadata=LATER)


class CostedModel(Protocol):
    """A model's costs, its link and the number of its replicas: a `Chain`, or a partition file."""

    @property
    def modules(self) -> tuple[ModuleCost, ...]:
        """The modules, in order."""
        ...

    @property
    def joints(self) -> tuple[Joint, ...]:
        """The differences of pairs of modules."""
        ...

    @property
    def ties(self) -> tuple[Tie, ...]:
        """The tied parameters."""
        ...

    @property
    def link(self) -> Link:
        """The link between any two ranks."""
        ...

    @property
    def replicas(self) -> int:
        """The number of replicas."""
        ...


def predict_stages(
    model: CostedModel, orders: Orders, places: Sequence[int]
) -> tuple[StagePrediction, ...]:
    """Return the predictions. places: the number of the first module of each stage but the first.

    A rank's bytes are those of its parameters, gradients and optimizer, of the activations of all
    microbatches in flight, of what one of its modules needs while it runs, and of buffers: torch's
    pipelines have one for what each microbatch of a batch receives, forward and back.
    """
    ends = zip((0, *places), (*places, len(model.modules)), strict=True)
    return tuple(_predict(model, orders, number, *stage) for number, stage in enumerate(ends))


def _predict(
    model: CostedModel, orders: Orders, number: int, first: int, last: int
) -> StagePrediction:
    inside = model.modules[first:last]
    joined = [each for each in model.joints if first <= each.first and each.second < last]
    before = _crossing(model, first)
    after = _crossing(model, last)
    rank, place = number % orders.ranks, number // orders.ranks
    waiting = max(counts[place] for counts in orders.under_way[rank])
    held = sum(each.held for each in inside) + sum(each.held for each in joined)
    kept = sum(each.kept for each in inside) + sum(each.kept for each in joined)
    memory = (
        held
        + waiting * (kept + after[0])
        + orders.microbatches * (before[0] + after[1])
        + max(each.passing for each in inside)
    )
    return StagePrediction(
        start=inside[0].name,
        modules=last - first,
        forward=sum(each.forward for each in inside),
        backward=sum(each.backward for each in inside),
        sending=sum(
            model.link.seconds(*_crossing(model, end))
            for end in (first, last)
            if 0 < end < len(model.modules)
        ),
        memory=memory,
        sent=before[1] + after[0],
        exchange=_exchange(model, orders, _gradients(model, first, last)),
        update=sum(each.update for each in inside),
    )


def _exchange(model: CostedModel, orders: Orders, gradients: float) -> float:
    """Return the seconds in which a stage's gradients are averaged over the replicas.

    gradients: bytes. The stages of a rank share its messages.
    """
    if not gradients:
        return 0.0
    return model.link.all_reduce(gradients, model.replicas, MESSAGES / orders.virtual_stages)


def _gradients(model: CostedModel, first: int, last: int) -> int:
    """Return the bytes of a stage's gradients, those of tied parameters once."""
    held = sum(each.gradients for each in model.modules[first:last])
    for tie in model.ties:
        uses = sum(first <= number < last for number in tie.modules)
        held -= tie.gradients * max(0, uses - 1)
    return held


def tie_seconds(link: Link, tie: Tie, ranks: int) -> float:
    """Return the seconds in which so many ranks add the gradients of tied parameters."""
    return link.all_reduce(tie.gradients, ranks, MESSAGES * tie.parameters)


def rank_ties(model: CostedModel, orders: Orders, places: Sequence[int]) -> Iterator[RankTie]:
    """Yield the exchanges of tied parameters between stages that begin at these places."""
    for tie in model.ties:
        stages = {bisect_right(places, number) for number in tie.modules}
        ranks = tuple(sorted({stage % orders.ranks for stage in stages}))
        if len(ranks) > 1:
            yield RankTie(ranks, tie_seconds(model.link, tie, len(ranks)))


def play(
    model: CostedModel,
    orders: Orders,
    places: Sequence[int],
    stages: Sequence[StagePrediction],
) -> Timeline:
    """Simulate a step of these stages, with its exchanges of gradients. Raises ParallelError."""
    return simulate(orders, stages, ties=tuple(rank_ties(model, orders, places)))


def step_spread(
    model: CostedModel,
    orders: Orders,
    places: Sequence[int],
    stages: Sequence[StagePrediction],
) -> float:
    """Return the spread of the seconds of a step.

    Modules vary independently of each other, but the microbatches of a rank vary together.
    """
    ends = zip((0, *places), (*places, len(model.modules)), strict=True)
    squares = [sum(each.spread**2 for each in model.modules[a:b]) for a, b in ends]
    seconds = [each.forward + each.backward + each.sending for each in stages]
    busiest = max(range(orders.ranks), key=lambda rank: sum(seconds[rank :: orders.ranks]))
    of_busiest = math.sqrt(sum(squares[busiest :: orders.ranks]))
    return math.sqrt(sum(squares)) + (orders.microbatches - 1) * of_busiest


def _crossing(model: CostedModel, place: int) -> tuple[int, int]:
    """Return the bytes that a cut before a module sends forward and back; none at the ends."""
    if not 0 < place < len(model.modules):
        return 0, 0
    module = model.modules[place]
    return module.crossing or 0, module.returning or 0
