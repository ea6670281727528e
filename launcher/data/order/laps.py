"""Reading an iterable dataset in laps over its shards: what comes of lanes becomes steps. Pure."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Protocol

from launcher.data.batches.structure import Array
from launcher.data.order.plan import Place
from launcher.data.order.shards import LanePlan, ShardPlan
from launcher.errors import DataError, WireError

#: A batch as its tree and its arrays.
Parts = tuple[Any, list[Array]]


@dataclass(kw_only=True)
class Portion:
    """A batch of a lane.

    samples: how many. parts: its tree and arrays. pad: it repeats samples of this epoch.
    """

    samples: int
    parts: Parts | None = None
    pad: bool = False

    def take(self) -> Parts:
        """The parts, which are held no longer: their memory is whoever's they are handed to."""
        assert self.parts is not None  # they are taken once
        parts, self.parts = self.parts, None
        return parts


#: Which step a batch is; of an iterable dataset, the portion that it was.
Step = int | Portion


@dataclass(frozen=True, kw_only=True)
class End:
    """A lane has ended; batches: how many it had."""

    batches: int


def pack(item: Portion | End) -> Parts:
    """What comes of a lane as a tree and arrays, as batches are sent."""
    if isinstance(item, End):
        return [0, item.batches], []
    tree, arrays = item.take()
    return [item.samples, tree], arrays


def unpack(tree: Any, arrays: list[Any]) -> Portion | End:
    """The inverse of `pack`; raises WireError for what is neither."""
    match tree:
        case [0, int(batches)]:
            return End(batches=batches)
        case [int(samples), content]:
            return Portion(samples=samples, parts=(content, arrays))
    raise WireError("a batch of a shard that does not say how many samples it has")


class LaneReader(Protocol):
    """A lane that is being read: its batches in order, then its end."""

    def __iter__(self) -> Iterator[Portion | End]: ...

    def __next__(self) -> Portion | End: ...

    def close(self) -> None:
        """Stop reading."""


#: Begins to read a lane; how, is for the source of batches to know.
OpenLane = Callable[[LanePlan], LaneReader]


def read_parts(
    plan: ShardPlan, open_lane: OpenLane
) -> Generator[tuple[Portion, Parts], None, None]:
    """The steps of a rank's epoch with what is in them."""
    with closing(read_epoch(plan, open_lane)) as portions:
        for portion in portions:
            yield portion, portion.take()


def read_epoch(plan: ShardPlan, open_lane: OpenLane) -> Generator[Portion, None, None]:
    """The steps of a rank's epoch, from the plan's first.

    Where the shards end before the steps do, they are begun anew; raises DataError where that is
    not wanted.
    """
    taken = 0
    for lap in itertools.count():
        before = taken
        with closing(_read_lap(plan.lanes(lap, max(0, plan.first - taken)), open_lane)) as steps:
            for portion in steps:
                taken += 1
                if taken > plan.first:
                    portion.pad = lap > 0
                    yield portion
                if taken == plan.steps:
                    return
        if plan.steps is None:
            _check_resumed(plan, taken)
            return
        _check_more(plan, taken, taken - before)


def _read_lap(plans: list[LanePlan], open_lane: OpenLane) -> Generator[Portion, None, None]:
    """One batch of each lane in turn, until all have ended."""
    with ExitStack() as stack:
        # All are opened at once: they are worked on side by side.
        opened = [stack.enter_context(closing(open_lane(plan))) for plan in plans]
        turns = deque(_from_the_start(*lane) for lane in zip(plans, opened, strict=True))
        while turns:
            lane = turns.popleft()
            if (portion := next(lane, None)) is not None:
                yield portion
                turns.append(lane)


def _from_the_start(plan: LanePlan, lane: LaneReader) -> Iterator[Portion]:
    """All batches of a lane; those before its first are only said to have been."""
    opening = next(lane)
    behind = min(plan.first, opening.batches) if isinstance(opening, End) else plan.first
    yield from itertools.repeat(Portion(samples=0), behind)
    for portion in itertools.chain([opening], lane):
        if isinstance(portion, End):
            lane.close()  # its share of the memory is for the others
            return
        yield portion


def _check_resumed(plan: ShardPlan, taken: int) -> None:
    if taken < plan.first:
        raise DataError(
            f"{plan.spec.dataset} ended after {taken} steps, and the state was saved after "
            f"{plan.first}: the dataset has changed since"
        )


def _check_more(plan: ShardPlan, taken: int, latest: int) -> None:
    """Whether the shards may and can be begun anew."""
    where = f"the shards {list(plan.shards)} of {plan.spec.dataset}"
    if latest == 0:
        raise DataError(f"{where} have no batch, so rank {plan.rank} has nothing to take")
    if plan.spec.uneven == "error":
        raise DataError(
            f"{where} ended after {taken} steps of rank {plan.rank}, and an epoch has "
            f"steps={plan.steps}; give the loader at most steps={taken}, or uneven='pad' to begin "
            "the shards anew"
        )


class ShardProgress:
    """The steps of a rank that have been taken, and what was in them."""

    def __init__(self, plan: ShardPlan) -> None:
        self._plan = plan
        self._taken = plan.first
        self._is_over = False
        self.samples = self.pads = 0
        self.drops = 0  # none that anybody could know of

    def note(self, portion: Portion) -> None:
        self._taken += 1
        self.samples += portion.samples
        self.pads += portion.samples if portion.pad else 0

    def end(self) -> None:
        """The epoch is over."""
        self._is_over = True

    @property
    def place(self) -> Place | None:
        """Where to go on; None when the epoch is over."""
        if self._is_over or self._taken == self._plan.steps:
            return None
        return Place(epoch=self._plan.epoch, taken=self._taken)
