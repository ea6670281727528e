"""Orders of actions: how each rank of a pipeline runs its stages on microbatches.

The orders are those of torch.distributed.pipelining (2.13): ScheduleGPipe, Schedule1F1B,
ScheduleInterleaved1F1B and ScheduleInterleavedZeroBubble.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from launcher.errors import ParallelError
from launcher.shared import Schedule


class ActionKind(str, enum.Enum):
    """Kinds of passes of a microbatch through a stage."""

    FORWARD = "forward"
    BACKWARD = "backward"
    #: The two halves of a backward pass in a zero-bubble schedule.
    INPUT = "input"
    WEIGHT = "weight"


class Action(NamedTuple):
    """One unit of a rank's work: a pass of one microbatch through one of its stages."""

    kind: ActionKind
    stage: int
    microbatch: int


class Turn(NamedTuple):
    """An action in a queue, with the positions of the actions that it waits for; -1: none.

    before: the previous action of its rank. arrival: the action of another stage that sends its
    input.
    """

    action: Action
    rank: int
    before: int
    arrival: int


@dataclass(frozen=True, kw_only=True)
class Orders:
    """The order in which stages and microbatches run on their ranks.

    Rank r holds the stages r, r + ranks, and so on, `virtual_stages` in all. Raises ParallelError
    for settings that the schedule does not support.
    """

    schedule: Schedule
    ranks: int
    microbatches: int
    virtual_stages: int = 1

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise ParallelError("; ".join(problems))

    def _problems(self) -> Iterator[str]:
        name, ranks, many = self.schedule.value, self.ranks, self.microbatches
        if self.schedule is Schedule.SIMPLE:
            if self.virtual_stages > 1:
                yield (
                    f"schedule {name!r} has one stage on each rank, and virtual_stages is "
                    f"{self.virtual_stages}: use 'interleaved'"
                )
        elif many < ranks:
            yield (
                f"schedule {name!r} needs a microbatch for each of {ranks} ranks, and there are "
                f"{many}: use {ranks} or more, or schedule 'simple'"
            )
        elif self._has_rounds and many % (many // ranks):
            yield (
                f"{many} microbatches cannot go in {many // ranks} equal rounds over {ranks} "
                f"ranks, as schedule {name!r} has them: use {many // ranks * ranks}"
            )

    @property
    def _has_rounds(self) -> bool:
        return self.virtual_stages > 1 or self._has_no_bubble

    @property
    def _has_no_bubble(self) -> bool:
        return self.schedule is Schedule.ZERO_BUBBLE

    @property
    def stages(self) -> int:
        """Number of stages on all ranks."""
        return self.ranks * self.virtual_stages

    @cached_property
    def actions(self) -> tuple[tuple[Action, ...], ...]:
        """The actions of each rank, in order."""
        return tuple(tuple(self._actions(rank)) for rank in range(self.ranks))

    def _actions(self, rank: int) -> Iterator[Action]:
        """Yield forward passes, each followed by the backward pass `lead` passes behind it."""
        count, lead = self.microbatches * self.virtual_stages, self._lead(rank)
        backward = ActionKind.INPUT if self._has_no_bubble else ActionKind.BACKWARD
        for number in range(count + lead):
            if number < count:
                yield self._pass(rank, ActionKind.FORWARD, number)
            if number >= lead:
                yield self._pass(rank, backward, number - lead)
            if self._has_no_bubble and number >= lead + rank:
                yield self._pass(rank, ActionKind.WEIGHT, number - lead - rank)
        if self._has_no_bubble:
            for number in range(max(0, count - rank), count):
                yield self._pass(rank, ActionKind.WEIGHT, number)

    def _lead(self, rank: int) -> int:
        """Return how many forward passes a rank starts before alternating with backward passes."""
        count, behind = self.microbatches * self.virtual_stages, self.ranks - 1 - rank
        if self.schedule is Schedule.SIMPLE:
            return count
        # torch's interleaved schedule starts twice as many as plain 1F1B, so that each transfer
        # has the time of a whole pass.
        ahead = 2 if self._has_rounds and not self._has_no_bubble else 1
        return min(count, (self.virtual_stages - 1) * self._round + ahead * behind)

    @property
    def _round(self) -> int:
        """Microbatches that pass through a stage before the rank's next stage gets them."""
        return self.microbatches // max(1, self.microbatches // self.ranks)

    def _pass(self, rank: int, kind: ActionKind, number: int) -> Action:
        """Return the number-th pass of a kind on a rank; backward starts with the last stage."""
        rounds, place = divmod(number, self._round * self.virtual_stages)
        local, offset = divmod(place, self._round)
        if kind is not ActionKind.FORWARD:
            local = self.virtual_stages - 1 - local
        return Action(kind, local * self.ranks + rank, rounds * self._round + offset)

    @cached_property
    def queue(self) -> tuple[Turn, ...]:
        """The actions of all ranks, each after all that it waits for."""
        found: list[Turn] = []
        places: dict[Action, int] = {}
        last, waiting = [-1] * self.ranks, [0] * self.ranks
        while len(found) < sum(map(len, self.actions)):
            for rank, mine in enumerate(self.actions):
                while waiting[rank] < len(mine):
                    action = mine[waiting[rank]]
                    source = self._source(action)
                    if source is not None and source not in places:
                        break
                    arrival = -1 if source is None else places[source]
                    places[action] = len(found)
                    found.append(Turn(action, rank, last[rank], arrival))
                    last[rank] = places[action]
                    waiting[rank] += 1
        return tuple(found)

    def _source(self, action: Action) -> Action | None:
        """Return the action of another stage that must precede this one, or None."""
        step = {
            ActionKind.FORWARD: -1,
            ActionKind.BACKWARD: 1,
            ActionKind.INPUT: 1,
            ActionKind.WEIGHT: 0,
        }[action.kind]
        stage = action.stage + step
        return action._replace(stage=stage) if step and 0 <= stage < self.stages else None

    @cached_property
    def under_way(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """In-flight microbatches of each stage at the fullest moments, by rank.

        They count from the start of their forward pass to the end of their backward pass, including
        that of the weights. There are several such moments where one stage is fuller now and
        another later.
        """
        return tuple(tuple(self._fullest(rank)) for rank in range(self.ranks))

    def _fullest(self, rank: int) -> Iterator[tuple[int, ...]]:
        now, seen = [0] * self.virtual_stages, set()
        for action in self.actions[rank]:
            if action.kind is ActionKind.FORWARD:
                now[action.stage // self.ranks] += 1
                seen.add(tuple(now))
            elif action.kind is not ActionKind.INPUT:
                now[action.stage // self.ranks] -= 1
        for one in sorted(seen):
            if not any(_exceeds(other, one) for other in seen):
                yield one


def _exceeds(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))
