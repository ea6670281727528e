"""Interleaving of shard readers: one batch of each in turn gives the steps of a rank."""

from __future__ import annotations

import itertools
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any, Protocol

from launcher.data.batches import Array
from launcher.data.order.batch_plan import ResumePoint
from launcher.data.order.saved_states import PAIR, SavedState, ShardPrefix
from launcher.data.order.shards import ShardPlan, ShardReaderPlan
from launcher.data.order.verification import combined
from launcher.errors import DataError, WireError
from launcher.runtime import log_event

#: A batch as its tree and its arrays.
Parts = tuple[Any, list[Array]]


@dataclass(kw_only=True)
class ShardBatch:
    """A batch of one shard.

    samples: how many it has. parts: its tree and arrays. pad: it repeats samples of this epoch.
    follows, fingerprint: that of the shard's batches before it, and with it. state: of the dataset,
    if one was saved since the shard's batch before.
    """

    samples: int
    parts: Parts | None = None
    pad: bool = False
    shard: int = 0
    follows: str = ""
    fingerprint: str = ""
    state: SavedState | None = None

    def take(self) -> Parts:
        """Return the parts and drop the reference to them, so that the caller owns their memory."""
        assert self.parts is not None  # they are taken once
        parts, self.parts = self.parts, None
        return parts


#: The step number of a batch; for an iterable dataset, its shard batch.
Step = int | ShardBatch


@dataclass(frozen=True, kw_only=True)
class ShardEnd:
    """The end of a shard. batches: how many it had. follows: their fingerprint."""

    batches: int
    follows: str = field(default="", compare=False)


def pack(item: ShardBatch | ShardEnd) -> Parts:
    """Convert a shard batch or an end to a tree and arrays, the form in which batches are sent."""
    if isinstance(item, ShardEnd):
        return [0, item.batches, item.follows], []
    tree, arrays = item.take()
    state = item.state and vars(item.state)
    return [item.samples, item.follows, item.fingerprint, state, tree], arrays


def unpack(tree: Any, arrays: list[Any]) -> ShardBatch | ShardEnd:
    """Invert `pack`; raises WireError for anything else."""
    match tree:
        case [0, int(batches), str(follows)]:
            return ShardEnd(batches=batches, follows=follows)
        case [int(samples), str(follows), str(fingerprint), state, content]:
            return ShardBatch(
                samples=samples,
                parts=(content, arrays),
                follows=follows,
                fingerprint=fingerprint,
                state=state and SavedState.from_json(state),
            )
    raise WireError("a batch of a shard without its number of samples")


class ShardBatchReader(Protocol):
    """A shard that is being read: yields its batches in order, then its end."""

    def __iter__(self) -> Iterator[ShardBatch | ShardEnd]: ...

    def __next__(self) -> ShardBatch | ShardEnd: ...

    def close(self) -> None:
        """Stop reading."""


#: Starts to read a shard. Each source of batches has its own.
OpenShardReader = Callable[[ShardReaderPlan], ShardBatchReader]


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
        plans = plan.reader_plans(pass_index, max(0, plan.first - taken))
        check = PrefixCheck(plan, plans, plan.prefix if pass_index == 0 else "")
        with closing(_read_pass(plans, open_reader, check)) as steps:
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
    plans: list[ShardReaderPlan], open_reader: OpenShardReader, check: PrefixCheck
) -> Generator[ShardBatch, None, None]:
    """Take one batch of each shard in turn, until all shards have ended."""
    with ExitStack() as stack:
        # Open all at once, so that they are prepared in parallel.
        opened = [stack.enter_context(closing(open_reader(plan))) for plan in plans]
        turns = deque(_with_skipped(*reader, check) for reader in zip(plans, opened, strict=True))
        while turns:
            reader = turns.popleft()
            if (shard_batch := next(reader, None)) is not None:
                yield shard_batch
                turns.append(reader)


def _with_skipped(
    plan: ShardReaderPlan, reader: ShardBatchReader, check: PrefixCheck
) -> Iterator[ShardBatch]:
    """Yield all batches of a shard, with empty ones in place of those before the plan's first."""
    first_item = next(reader)
    check.begin(plan, first_item)
    behind = min(plan.first, first_item.batches) if isinstance(first_item, ShardEnd) else plan.first
    yield from itertools.repeat(ShardBatch(samples=0), behind)
    for shard_batch in itertools.chain([first_item], reader):
        check.follow(plan, shard_batch)
        if isinstance(shard_batch, ShardEnd):
            reader.close()  # frees its share of the memory for the others
            return
        shard_batch.shard = plan.shard
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
        "samples and how it shares them among the shards, or give the loader "
        "LoaderOptions(allow_empty=True)"
    )


class PrefixCheck:
    """Compares what is delivered of each shard with what was before it was read again.

    A shard is read again from its start by another worker, and by a rank that resumes. prefix: the
    fingerprint of what the plans skip, "" if it is unknown.
    """

    def __init__(self, plan: ShardPlan, plans: list[ShardReaderPlan], prefix: str) -> None:
        self._spec = plan.spec
        self._prefix = prefix
        self._skipped = {each.shard: "" for each in plans if each.first}
        self._latest: dict[int, str] = {}
        self._has_warned = False

    def begin(self, plan: ShardReaderPlan, item: ShardBatch | ShardEnd) -> None:
        """Record the first item of a shard, and check what was skipped once all have begun."""
        if plan.shard not in self._skipped:
            return
        if isinstance(item, ShardEnd) and item.batches < plan.first:
            self._skipped.clear()  # the shard had ended before, so the others have gone further
            return
        self._skipped[plan.shard] = item.follows
        if self._prefix and all(self._skipped.values()):
            if combined(list(self._skipped.values())) != self._prefix:
                shards = ", ".join(map(str, self._skipped))
                self._differs(f"the shards {shards} gave", "where the state was saved")
            self._skipped.clear()

    def follow(self, plan: ShardReaderPlan, item: ShardBatch | ShardEnd) -> None:
        """Check that an item follows those that were delivered before it."""
        if item.follows != self._latest.get(plan.shard, item.follows):
            self._differs(f"shard {plan.shard} gave", "to a worker that was lost or late")
        if isinstance(item, ShardBatch):
            self._latest[plan.shard] = item.fingerprint

    def _differs(self, what: str, when: str) -> None:
        """Raise, or warn once, that samples would be lost or repeated."""
        text = (
            f"{self._spec.dataset} is not reproducible: read again from its start, {what} other "
            f"batches than before, {when}, so samples would be lost or repeated; let its order and "
            "content follow from its files and seeded generators alone, not from the clock, the "
            "process or the order in which threads run"
        )
        if self._spec.on_nondeterminism != "warn":
            raise DataError(f"{text} (on_nondeterminism='warn' reads on nevertheless)")
        if not self._has_warned:
            log_event("dataset_differs", logging.WARNING, dataset=self._spec.dataset, why=text)
        self._has_warned = True


class ShardProgress:
    """The steps that a rank has taken, with their samples and pads."""

    def __init__(self, plan: ShardPlan) -> None:
        self._plan = plan
        self._taken = plan.first
        self._is_over = False
        # By shard, in the first pass: batches taken, and their fingerprint if it is known.
        self._batches = {each.shard: each.first for each in plan.reader_plans(0, plan.first)}
        known = {s: each for s, each in plan.prefixes.items() if s in self._batches}
        self._fingerprints = {shard: each.fingerprint for shard, each in known.items()}
        self._states = {shard: list(each.states) for shard, each in known.items()}
        self.samples = self.pads = 0
        self.drops = 0  # always: dropped samples of an iterable dataset cannot be counted

    def record(self, shard_batch: ShardBatch) -> None:
        """Count a step that was taken."""
        self._taken += 1
        if not shard_batch.pad:
            self._batches[shard_batch.shard] += 1
            self._fingerprints[shard_batch.shard] = shard_batch.fingerprint
            if shard_batch.state is not None:
                states = self._states.get(shard_batch.shard, [])[1 - PAIR :]
                self._states[shard_batch.shard] = [*states, shard_batch.state]
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
        first = {each.shard: each.first for each in self._plan.reader_plans(0, self._taken)}
        return ResumePoint(
            epoch=self._plan.epoch,
            taken=self._taken,
            prefix=self._prefix(first),
            prefixes=self._prefixes(first),
        )

    def _prefixes(self, first: Mapping[int, int]) -> dict[int, ShardPrefix]:
        """Return the shards with a state, each with its fingerprint unless another one has ended.

        first: the batch of each shard at which reading would go on.
        """
        return {
            shard: ShardPrefix(
                fingerprint=self._fingerprints.get(shard, "")
                if self._batches[shard] == first[shard]
                else "",
                states=tuple(states),
            )
            for shard, states in self._states.items()
        }

    def _prefix(self, first: Mapping[int, int]) -> str:
        """Return the fingerprint of what was taken; "" if unknown, or if a shard has ended."""
        if self._taken == self._plan.first:
            return self._plan.prefix
        begun = [shard for shard, batch in first.items() if batch]
        if any(self._batches[shard] != first[shard] for shard in begun):
            return ""
        found = [self._fingerprints.get(shard, "") for shard in begun]
        return combined(found) if all(found) else ""
