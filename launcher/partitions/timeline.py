"""When each rank of a pipeline does what: a schedule, played with the seconds of its stages.

An action begins when its rank is free and what it takes is there. What goes over a cut takes its
time in both stages, half of it on the way there and half on the way back: a rank works or sends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from launcher.errors import ParallelError
from launcher.partitions.orders import Action, Kind, Orders


class Timed(Protocol):
    """A stage, in seconds for one microbatch. sending: what goes over its ends, there and back."""

    @property
    def forward(self) -> float: ...

    @property
    def backward(self) -> float: ...

    @property
    def sending(self) -> float: ...


@dataclass(frozen=True, kw_only=True)
class StageSeconds:
    """The least that is a timed stage."""

    forward: float
    backward: float
    sending: float = 0.0


class Share(NamedTuple):
    """What an action takes of its stage's times."""

    forward: float
    backward: float
    sending: float


def shares(inputs: float = 0.5) -> Mapping[Kind, Share]:
    """By kind of action. inputs: the part of a backward pass that is for a stage's inputs."""
    return {
        Kind.FORWARD: Share(1.0, 0.0, 0.5),
        Kind.BACKWARD: Share(0.0, 1.0, 0.5),
        Kind.INPUT: Share(0.0, inputs, 0.5),
        Kind.WEIGHT: Share(0.0, 1.0 - inputs, 0.0),
    }


class Event(NamedTuple):
    """An action, and when it begins and ends, in seconds."""

    action: Action
    begin: float
    end: float


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """A step of a pipeline. events: of each rank, in order."""

    orders: Orders
    events: tuple[tuple[Event, ...], ...]

    @property
    def seconds(self) -> float:
        """Of the step."""
        return max(events[-1].end for events in self.events)

    @property
    def idle(self) -> float:
        """The share of all ranks' time in which they have nothing to do."""
        if not self.seconds:
            return 0.0
        busy = sum(event.end - event.begin for events in self.events for event in events)
        return 1.0 - busy / (self.seconds * len(self.events))

    @property
    def under_way(self) -> tuple[int, ...]:
        """The most microbatches that are under way in each stage at once."""
        ranks = self.orders.ranks
        fullest = [
            [max(counts) for counts in zip(*self.orders.under_way[rank], strict=True)]
            for rank in range(ranks)
        ]
        return tuple(fullest[stage % ranks][stage // ranks] for stage in range(self.orders.stages))

    def kept(self, bytes_of: Sequence[int]) -> tuple[int, ...]:
        """The most bytes that each rank keeps for backward passes, of its stages together.

        bytes_of: by stage, what it keeps of one microbatch.
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


def simulate(orders: Orders, stages: Sequence[Timed], *, inputs: float = 0.5) -> Timeline:
    """Play a schedule. stages: of all ranks, in order; inputs: see `shares`.

    Raises ParallelError where there are more stages or fewer than the orders have.
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
    ends = [0.0] * (len(orders.queue) + 1)  # at -1 is the end of nothing
    events: list[list[Event]] = [[] for _ in range(orders.ranks)]
    for place, (action, rank, before, arrival) in enumerate(orders.queue):
        begin = max(ends[before], ends[arrival])
        ends[place] = begin + seconds[action.kind][action.stage]
        events[rank].append(Event(action, begin, ends[place]))
    return Timeline(orders=orders, events=tuple(map(tuple, events)))
