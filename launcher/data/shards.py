"""Which step of a rank is which shard's batch, when a dataset can only be iterated. Pure.

A stream of an iterable dataset has as many *shards* as its loader says, whatever the cluster looks
like. They are dealt to the ranks like cards, and a rank takes one batch of each of its shards in
turn, passing over those that have ended; one pass over all its shards is a *lap*. A shard of a lap
is a *lane*: its batches come in order, and where it ends is known only there.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Protocol

from launcher.data.plan import Place
from launcher.data.streams import StreamSpec
from launcher.errors import DataError, WireError

#: A batch as its tree and its arrays.
Parts = tuple[Any, list[Any]]

#: The steps of a lane, for those who must know a number: more than anybody will read.
ENDLESS = 1 << 53


@dataclass(kw_only=True)
class Portion:
    """A batch of a lane. samples: how many. parts: its tree and arrays. pad: it repeats samples
    of this epoch.
    """

    samples: int
    parts: Parts | None = None
    pad: bool = False

    def take(self) -> Parts:
        """The parts, which are held no longer: their memory is whoever's they are handed to."""
        assert self.parts is not None  # they are taken once
        parts, self.parts = self.parts, None
        return parts


@dataclass(frozen=True, kw_only=True)
class End:
    """A lane has ended. batches: how many it had."""

    batches: int


@dataclass(frozen=True, kw_only=True)
class LanePlan:
    """The batches of one shard in one lap of an epoch, from batch `first` on."""

    spec: StreamSpec
    epoch: int
    shard: int
    lap: int = 0
    first: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.shard < self.spec.shards or min(self.lap, self.first) < 0:
            raise DataError(f"{self.named(0)} is not in {self.spec.name}")

    @property
    def steps(self) -> int:
        return ENDLESS

    @property
    def number(self) -> int:
        """Which of all lanes of the epoch."""
        return self.shard + self.lap * self.spec.shards

    def named(self, step: int) -> str:
        """A batch, for a message."""
        return f"batch {self.first + step} of shard {self.shard} of {self.spec.shards}"


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


class LaneReader(Protocol):
    """A lane that is being read: its batches in order, then its end."""

    def __iter__(self) -> Iterator[Portion | End]: ...

    def __next__(self) -> Portion | End: ...

    def close(self) -> None:
        """Stop reading."""


#: Begins to read a lane; how, is for the source of batches to know.
OpenLane = Callable[[LanePlan], LaneReader]


@dataclass(frozen=True, kw_only=True)
class ShardPlan:
    """The batches of one rank in one epoch of an iterable dataset, from a step on.

    length: samples in the dataset, when it has a __len__. first: steps of the epoch that this rank
    has taken already.
    """

    spec: StreamSpec
    epoch: int
    length: int | None = None
    rank: int = 0
    world: int = 1
    first: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world:
            raise DataError(f"rank {self.rank} is not in a world of {self.world}")
        if problems := [*_inapplicable(self.spec), *self._wrong_numbers()]:
            raise DataError("\n".join(problems))

    def _wrong_numbers(self) -> Iterator[str]:
        name, count = self.spec.dataset, self.spec.shards
        if count < self.world:
            yield (
                f"{name} is read in shards={count} by {self.world} ranks: give the loader shards= "
                f"of at least {self.world}, best a multiple of it with one for each data worker"
            )
        if self.world > 1 and self.steps is None:
            yield (
                f"{name} is iterable and does not say how long it is, and {self.world} ranks must "
                "take the same number of steps: give the loader steps=, the batches of each rank "
                "in an epoch, or the dataset a __len__, its number of samples"
            )
        if self.steps is not None and self.spec.uneven == "drop":
            yield (
                f"uneven='drop' cannot be had for {name}: it is iterable, so nobody knows before "
                "its end how many steps all ranks can take; give the loader steps= that fit, with "
                "uneven='pad' or 'error'"
            )

    @property
    def shards(self) -> range:
        """The shards of this rank."""
        return range(self.rank, self.spec.shards, self.world)

    @property
    def steps(self) -> int | None:
        """Batches of this rank in the whole epoch; None: as many as there are."""
        if self.spec.steps is not None or self.world == 1:
            return self.spec.steps
        return self.expected_steps

    @property
    def expected_steps(self) -> int | None:
        """The steps of the longest rank, if the dataset's shards are of one length."""
        if self.spec.steps is not None or self.length is None:
            return self.spec.steps
        batches = [self._batches_of(shard) for shard in range(self.spec.shards)]
        return max(sum(batches[rank :: self.world]) for rank in range(self.world))

    def _batches_of(self, shard: int) -> int:
        assert self.length is not None
        samples = len(range(shard, self.length, self.spec.shards))
        full, rest = divmod(samples, self.spec.batch_size or 1)
        return full + (rest > 0 and not self.spec.drop_last)

    def known_steps(self) -> int:
        """The steps of the whole epoch; raises TypeError, as torch does, when nobody knows."""
        if self.expected_steps is None:
            raise TypeError(
                f"{self.spec.dataset} is iterable and has no __len__, so the loader has none "
                "without steps="
            )
        return self.expected_steps

    def lanes(self, lap: int, first: int) -> list[LanePlan]:
        """The lanes of a lap, with `first` steps of it behind them.

        That is where they stand if none of them has ended before. If one has, the others stand
        further on, and what comes from here to there was taken.
        """
        count = len(self.shards)
        return [
            LanePlan(
                spec=self.spec,
                epoch=self.epoch,
                shard=shard,
                lap=lap,
                first=len(range(turn, first, count)),
            )
            for turn, shard in enumerate(self.shards)
        ]


def plan_shards(
    spec: StreamSpec, length: int | None, place: Place, *, rank: int, world: int
) -> ShardPlan:
    """The plan of a rank from a place on."""
    if place.position or place.length is not None:
        raise DataError(
            f"{spec.dataset} is iterable, and the state is of a dataset with samples by index"
        )
    return ShardPlan(
        spec=spec, length=length, epoch=place.epoch, rank=rank, world=world, first=place.taken
    )


def _inapplicable(spec: StreamSpec) -> Iterator[str]:
    """What is for datasets with indices alone."""
    given = {
        "shuffle": spec.shuffle,
        "sampler": spec.sampler is not None,
        "batch_sampler": spec.batch_sampler is not None,
        "in_order=False": not spec.in_order,
    }
    if names := [name for name, is_given in given.items() if is_given]:
        yield (
            f"{', '.join(names)}: {spec.dataset} is iterable, so its order is that of its own "
            "__iter__, where random, numpy.random and torch are seeded for each epoch and shard"
        )
    if spec.on_error == "skip":
        yield (
            f"on_error='skip': {spec.dataset} is iterable, and an iterator that has raised is "
            "finished; catch what its samples raise in its __iter__, and go on there"
        )


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
