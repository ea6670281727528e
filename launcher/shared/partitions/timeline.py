"""Simulate a pipeline schedule from the seconds each stage takes.

An action begins when its rank is free and its input has arrived. A transfer over a cut takes time
in both stages, half of it forward and half backward: a rank either computes or sends. After its
last action a rank exchanges gradients: those of tied parameters with the other ranks that hold
them, which wait for each other, and then all of them with its replicas. The optimizer's step of its
stages is the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from launcher.errors import ParallelError
from launcher.shared.partitions.schedule_orders import Action, ActionKind, Orders


class Timed(Protocol):
    """A stage's seconds for one microbatch. sending: transfers over its ends, both directions.

    exchange: seconds of a step to average the stage's gradients with those of its replicas.
    update: seconds of the optimizer's step.
    """

    @property
    def forward(self) -> float:
        """Seconds of the forward pass."""
        ...

    @property
    def backward(self) -> float:
        """Seconds of the backward pass."""
        ...

    @property
    def sending(self) -> float:
        """Seconds of transfers."""
        ...

    @property
    def exchange(self) -> float:
        """Seconds of an exchange with replicas."""
        ...

    @property
    def update(self) -> float:
        """Seconds of the optimizer's step."""
        ...


@dataclass(frozen=True, kw_only=True)
class StageSeconds:
    """A minimal timed stage."""

    forward: float
    backward: float
    sending: float = 0.0
    exchange: float = 0.0
    update: float = 0.0


class RankTie(NamedTuple):
    """Ranks of one replica that add the gradients of tied parameters, and how long it takes."""

    ranks: tuple[int, ...]
    seconds: float


class Share(NamedTuple):
    """Fractions of its stage's times that an action takes."""

    forward: float
    backward: float
    sending: float


def shares(inputs: float = 0.5) -> Mapping[ActionKind, Share]:
    """Return the shares of each kind of action.

    inputs: the fraction of a backward pass that computes the gradients of a stage's inputs.
    """
    return {
        ActionKind.FORWARD: Share(1.0, 0.0, 0.5),
        ActionKind.BACKWARD: Share(0.0, 1.0, 0.5),
        ActionKind.INPUT: Share(0.0, inputs, 0.5),
        ActionKind.WEIGHT: Share(0.0, 1.0 - inputs, 0.0),
    }


#: Name of the optimizer's step among what a rank does after its last action.
OPTIMIZER = "optimizer"


class Event(NamedTuple):
    """An action with its start and end, in seconds."""

    action: Action
    begin: float
    end: float


class Exchange(NamedTuple):
    """A part of a rank's step after its last action, with its start and end, in seconds.

    partners: of an exchange of gradients; OPTIMIZER for the optimizer's step.
    """

    partners: str
    begin: float
    end: float


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """A step of a pipeline. events, exchanges: of each rank, in order; exchanges come last."""

    orders: Orders
    events: tuple[tuple[Event, ...], ...]
    exchanges: tuple[tuple[Exchange, ...], ...]

    @property
    def seconds(self) -> float:
        """Seconds of the step."""
        return max(spans[-1].end for spans in self._spans)

    @property
    def _spans(self) -> Iterator[tuple[Event | Exchange, ...]]:
        """Yield everything that each rank does."""
        for events, exchanges in zip(self.events, self.exchanges, strict=True):
            yield (*events, *exchanges)

    @property
    def idle(self) -> float:
        """The fraction of all ranks' time in which they are idle."""
        if not self.seconds:
            return 0.0
        busy = sum(span.end - span.begin for spans in self._spans for span in spans)
        return 1.0 - busy / (self.seconds * len(self.events))

    @property
    def under_way(self) -> tuple[int, ...]:
        """The most in-flight microbatches of each stage."""
        ranks = self.orders.ranks
        fullest = [
            [max(counts) for counts in zip(*self.orders.under_way[rank], strict=True)]
            for rank in range(ranks)
        ]
        return tuple(fullest[stage % ranks][stage // ranks] for stage in range(self.orders.stages))

    def kept(self, bytes_of: Sequence[int]) -> tuple[int, ...]:
        """Return the most bytes that each rank keeps for backward passes, over all its stages.

        bytes_of: by stage, the bytes kept for one microbatch.
        """
        return tuple(
            max(
                sum(
                    count * each
                    for count, each in zip(counts, bytes_of[rank :: self.orders.ranks], strict=True)
                )
                for counts in self.orders.under_way[rank]
            )
            for rank in range(self.orders.ranks)
        )


def simulate(
    orders: Orders, stages: Sequence[Timed], *, ties: Sequence[RankTie] = (), inputs: float = 0.5
) -> Timeline:
    """Simulate a schedule. stages: of all ranks, in order; inputs: see `shares`.

    ties: in the order in which their gradients are added. Raises ParallelError where the number of
    stages is not that of the orders.
    """
    if len(stages) != orders.stages:
        raise ParallelError(
            f"there are {len(stages)} stages, and {orders.ranks} ranks with "
            f"{orders.virtual_stages} each have {orders.stages}: give the seconds of as many"
        )
    seconds = {
        kind: [
            share.forward * each.forward
            + share.backward * each.backward
            + share.sending * each.sending
            for each in stages
        ]
        for kind, share in shares(inputs).items()
    }
    ends = [0.0] * (len(orders.queue) + 1)  # index -1 stands for no action, which ends at 0
    events: list[list[Event]] = [[] for _ in range(orders.ranks)]
    for place, (action, rank, before, arrival) in enumerate(orders.queue):
        begin = max(ends[before], ends[arrival])
        ends[place] = begin + seconds[action.kind][action.stage]
        events[rank].append(Event(action, begin, ends[place]))
    last = [mine[-1].end for mine in events]
    return Timeline(
        orders=orders,
        events=tuple(map(tuple, events)),
        exchanges=tuple(map(tuple, _exchanges(orders, last, stages, ties))),
    )


def _exchanges(
    orders: Orders, last: Sequence[float], stages: Sequence[Timed], ties: Sequence[RankTie]
) -> list[list[Exchange]]:
    """Return the exchanges of each rank. last: when the last action of each rank ends."""
    now = list(last)
    found: list[list[Exchange]] = [[] for _ in now]
    for tie in ties:
        begin = max(now[rank] for rank in tie.ranks)
        for rank in tie.ranks:
            now[rank] = begin + tie.seconds
            found[rank].append(Exchange("stages with tied parameters", begin, now[rank]))
    for rank, begin in enumerate(now):
        mine = stages[rank :: orders.ranks]
        exchange, update = (sum(getattr(each, n) for each in mine) for n in ("exchange", "update"))
        if exchange:
            found[rank].append(Exchange("replicas", begin, begin + exchange))
        if update:
            found[rank].append(Exchange(OPTIMIZER, begin + exchange, begin + exchange + update))
    return found
