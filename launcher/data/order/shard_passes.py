"""Interleaving of shard readers: one batch of each in turn gives the steps of a rank. Pure."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any, Protocol

from launcher.data.batches.structure import Array
from launcher.data.order.batch_plan import ResumePoint
from launcher.data.order.shards import ShardPlan, ShardReaderPlan
from launcher.errors import DataError, WireError

#: A batch as its tree and its arrays.
Parts = tuple[Any, list[Array]]


@dataclass(kw_only=True)
class ShardBatch:
    """A batch of one shard.

    samples: how many it has. parts: its tree and arrays. pad: it repeats samples of this epoch.
    """

    samples: int
    parts: Parts | None = None
    pad: bool = False

    def take(self) -> Parts:
        """Return the parts and drop the reference to them, so that the caller owns their memory."""
        assert self.parts is not None  # they are taken once
        parts, self.parts = self.parts, None
        return parts


#: The step number of a batch; for an iterable dataset, its shard batch.
Step = int | ShardBatch


@dataclass(frozen=True, kw_only=True)
class ShardEnd:
    """The end of a shard. batches: how many it had."""

    batches: int


def pack(item: ShardBatch | ShardEnd) -> Parts:
    """Convert a shard batch or an end to a tree and arrays, the form in which batches are sent."""
    if isinstance(item, ShardEnd):
        return [0, item.batches], []
    tree, arrays = item.take()
    return [item.samples, tree], arrays


def unpack(tree: Any, arrays: list[Any]) -> ShardBatch | ShardEnd:
    """Invert `pack`; raises WireError for anything else."""
    match tree:
        case [0, int(batches)]:
            return ShardEnd(batches=batches)
        case [int(samples), content]:
            return ShardBatch(samples=samples, parts=(content, arrays))
    raise WireError("a batch of a shard without its number of samples")


class ShardSampleReader(Protocol):
    """A shard that is being read: yields its batches in order, then its end."""

    def __iter__(self) -> Iterator[ShardBatch | ShardEnd]: ...

    def __next__(self) -> ShardBatch | ShardEnd: ...

    def close(self) -> None:
        """Stop reading."""


#: Starts to read a shard. Each source of batches has its own.
OpenShardReader = Callable[[ShardReaderPlan], ShardSampleReader]


def read_parts(
    plan: ShardPlan, open_reader: OpenShardReader
) -> Generator[tuple[ShardBatch, Parts], None, None]:
    """Yield the steps of a rank's epoch with their contents."""
    with closing(read_epoch(plan, open_reader)) as shard_batches:
        for shard_batch in shard_batches:
            yield shard_batch, shard_batch.take()


def read_epoch(plan: ShardPlan, open_reader: OpenShardReader) -> Generator[ShardBatch, None, None]:
    """Yield the steps of a rank's epoch, from the plan's first.

    Starts the shards over when they end before the steps do; raises DataError where the plan does
    not allow that.
    """
    taken = 0
    for pass_index in itertools.count():
        before = taken
        with closing(
            _read_pass(plan.reader_plans(pass_index, max(0, plan.first - taken)), open_reader)
        ) as steps:
            for shard_batch in steps:
                taken += 1
                if taken > plan.first:
                    shard_batch.pad = pass_index > 0
                    yield shard_batch
                if taken == plan.steps:
                    return
        if taken == 0 and plan.spec.allow_empty:
            return
        if plan.steps is None:
            _check_resumed(plan, taken)
            return
        _check_restart(plan, taken, taken - before)


def _read_pass(
    plans: list[ShardReaderPlan], open_reader: OpenShardReader
) -> Generator[ShardBatch, None, None]:
    """Take one batch of each shard in turn, until all shards have ended."""
    with ExitStack() as stack:
        # Open all at once, so that they are prepared in parallel.
        opened = [stack.enter_context(closing(open_reader(plan))) for plan in plans]
        turns = deque(_with_skipped(*reader) for reader in zip(plans, opened, strict=True))
        while turns:
            reader = turns.popleft()
            if (shard_batch := next(reader, None)) is not None:
                yield shard_batch
                turns.append(reader)


def _with_skipped(plan: ShardReaderPlan, reader: ShardSampleReader) -> Iterator[ShardBatch]:
    """Yield all batches of a shard, with empty ones in place of those before the plan's first."""
    first_item = next(reader)
    behind = min(plan.first, first_item.batches) if isinstance(first_item, ShardEnd) else plan.first
    yield from itertools.repeat(ShardBatch(samples=0), behind)
    for shard_batch in itertools.chain([first_item], reader):
        if isinstance(shard_batch, ShardEnd):
            reader.close()  # frees its share of the memory for the others
            return
        yield shard_batch


def _check_resumed(plan: ShardPlan, taken: int) -> None:
    if taken < plan.first:
        raise DataError(
            f"{plan.spec.dataset} ended after {taken} steps, and the state was saved after "
            f"{plan.first}: the dataset has changed since"
        )
    if taken == 0:
        raise DataError(_no_batch(plan))


def _check_restart(plan: ShardPlan, taken: int, latest: int) -> None:
    """Raise unless the shards may be started over and have any batch."""
    where = f"the shards {list(plan.shards)} of {plan.spec.dataset}"
    if latest == 0:
        raise DataError(_no_batch(plan))
    if plan.spec.uneven == "error":
        raise DataError(
            f"{where} ended after {taken} steps of rank {plan.rank}, and an epoch has "
            f"steps={plan.steps}; give the loader at most steps={taken}, or uneven='pad' to read "
            "the shards again from their start"
        )


def _no_batch(plan: ShardPlan) -> str:
    dropped = " but incomplete ones, which drop_last leaves out" if plan.spec.drop_last else ""
    return (
        f"the shards {list(plan.shards)} of {plan.spec.dataset} have no batch{dropped}, so rank "
        f"{plan.rank} has none to read in epoch {plan.epoch}: check where the dataset finds its "
        "samples and how it shares them among the shards, or give the loader allow_empty=True"
    )


class ShardProgress:
    """The steps that a rank has taken, with their samples and pads."""

    def __init__(self, plan: ShardPlan) -> None:
        self._plan = plan
        self._taken = plan.first
        self._is_over = False
        self.samples = self.pads = 0
        self.drops = 0  # always: dropped samples of an iterable dataset cannot be counted

    def record(self, shard_batch: ShardBatch) -> None:
        """Count a step that was taken."""
        self._taken += 1
        self.samples += shard_batch.samples
        self.pads += shard_batch.samples if shard_batch.pad else 0

    def end(self) -> None:
        """Mark the epoch as finished."""
        self._is_over = True

    @property
    def resume_point(self) -> ResumePoint | None:
        """The point to resume from; None when the epoch is over."""
        if self._is_over or self._taken == self._plan.steps:
            return None
        return ResumePoint(epoch=self._plan.epoch, taken=self._taken)
