"""Iterable datasets at work: live iterators over shards, which go on, go back and disturb nobody.

A lane (`shards`) is built from nothing but its plan: the dataset is made anew by its function, as
each worker process of torch has a copy of its own, and the random states are seeded from (seed,
epoch, shard). Wherever and how often it is read, batch n of a lane is therefore the same bytes. A
lane that is asked for an earlier batch than its next begins anew.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from launcher.data.batches import structure
from launcher.data.order import samples, seeding
from launcher.data.order.current_shard import ShardInHand, in_hand
from launcher.data.order.laps import End, Portion
from launcher.data.order.raised import latest_traceback, text_of
from launcher.data.order.shards import LanePlan
from launcher.errors import DataError, SampleError
from launcher.runtime.events import emit

_T = TypeVar("_T")
_END = object()


class Lane:
    """The live iterator of a lane, made when it is first needed."""

    def __init__(self, plan: LanePlan) -> None:
        self._plan = plan
        self._hand = ShardInHand(plan.shard, plan.spec.shards)
        self._seed = seeding.sample_seed(plan.spec.seed, plan.epoch, plan.number, purpose=b"shard")
        self._dataset: Any = None
        self._iterator: Iterator[Any] | None = None
        self._states: seeding.States | None = None  # where its random numbers go on
        self._next = self._taken = 0  # batches and samples before the place where it stands

    def read(self, step: int) -> Portion | End:
        """The batch of a step, or the end of the lane if it comes before.

        Leaves the process's random states alone. Raises SampleError when the dataset raises, and
        DataError for samples that do not make a batch.
        """
        index = self._plan.first + step
        with seeding.states_kept():
            self._advance(index)
            found = self._advance(index + 1)
            if not found:
                return End(batches=self._next)
            portion = Portion(samples=len(found), parts=self._batch(found, step))
        if index == 0 and not self._hand.asked and self._hand.count > 1:
            self._check_sharding(portion)
        return portion

    def find(self, step: int) -> None:
        """Go to the place where the batch of a step comes next, as `read` would."""
        with seeding.states_kept():
            self._advance(self._plan.first + step)

    def close(self) -> None:
        """End the iterator, and let go of the dataset."""
        iterator, self._iterator = self._iterator, None
        if (close := getattr(iterator, "close", None)) is not None:
            try:
                with seeding.states_kept(), self._in_hand():
                    close()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's `finally`
                emit("iterator_not_closed", dataset=self._plan.spec.dataset, why=repr(error))
        self._dataset = None

    # ---------------------------------------------------------------------------------------

    def _in_hand(self) -> contextlib.AbstractContextManager[None]:
        return in_hand(self._hand, seed=self._seed, dataset=self._dataset)

    def _advance(self, end: int) -> list[Any]:
        """Go to where so many batches, or all, have come; returns the last if it has just come."""
        if self._iterator is None or end < self._next:
            self._begin()
        if self._next == end:
            return []
        had_torch = "torch" in sys.modules
        found: list[Any] = []
        with self._in_hand(), self._own_states():
            while self._next < end and (found := self._pull()):
                self._next += 1
        if had_torch or "torch" not in sys.modules:
            return found
        # The dataset's own code has just imported torch, which knew no shard and no seed yet.
        self.close()
        return self._advance(end)

    @contextlib.contextmanager
    def _own_states(self) -> Iterator[None]:
        if self._states is not None:
            self._states.restore()
        yield
        self._states = seeding.States.now()

    def _begin(self) -> None:
        self.close()
        self._next = self._taken = 0
        # What is drawn while the dataset is made is the same for all shards, so that a list of
        # files can be shuffled here and cut into shards later.
        seeding.seed_everything(
            seeding.sample_seed(self._plan.spec.seed, self._plan.epoch, 0, purpose=b"dataset")
        )
        self._dataset = samples.build_dataset(self._plan.spec.dataset)
        seeding.seed_everything(self._seed)
        with self._in_hand():
            self._iterator = self._called(lambda: iter(self._dataset))
        self._states = seeding.States.now()

    def _pull(self) -> list[Any]:
        """The samples of the next batch."""
        found: list[Any] = []
        size = self._plan.spec.batch_size or 1
        while len(found) < size:
            sample = self._called(lambda: next(self._iterator or iter(()), _END))
            if sample is _END:
                self._let_go()
                return [] if self._plan.spec.drop_last else found
            found.append(sample)
            self._taken += 1
        return found

    def _let_go(self) -> None:
        """Keep no more than the end of a shard that has ended."""
        self._dataset, self._iterator = None, iter(())

    def _called(self, users_code: Callable[[], _T]) -> _T:
        try:
            return users_code()
        except (Exception, SystemExit) as error:  # the user's code may raise anything
            self._iterator = None  # a generator that has raised is finished: it must begin anew
            raise SampleError(
                f"{self._plan.spec.dataset} raised {type(error).__name__} in shard "
                f"{self._hand.index} of {self._hand.count}, after {self._taken} samples of it: "
                f"{text_of(error)}",
                index=self._taken,
                remote_traceback=latest_traceback(),
            ) from error

    def _batch(self, found: list[Any], step: int) -> tuple[Any, list[structure.Array]]:
        # What a collate_fn draws follows from the batch alone, as it is not called for those that
        # are only read to find a place.
        plan = self._plan
        position = (plan.number << 32) + plan.first + step
        batch = samples.make_batch(found, plan.spec, plan.epoch, position, lambda: plan.named(step))
        return structure.take_apart(batch)

    def _check_sharding(self, first: Portion) -> None:
        """Raise when the dataset gives the same samples in another shard."""
        spec, shard = self._plan.spec, self._plan.shard
        other = (shard + 1) % spec.shards
        lane = Lane(replace(self._plan, shard=other))
        lane._hand.asked = True  # once is enough
        try:
            are_alike = _are_alike(lane.read(0), first)
        finally:
            lane.close()
        if are_alike:
            raise DataError(
                f"{spec.dataset} is read in shards={spec.shards}, and does not ask in which: its "
                f"shards {shard} and {other} begin alike, so that each sample would come "
                f"{spec.shards} times; let its __iter__ give the samples of one shard, as torch's "
                "get_worker_info() or launcher.data.shard() tell which, or give the loader shards=1"
            )
        emit("shard_not_asked_for", dataset=spec.dataset, shard=shard, shards=spec.shards)


class LocalLane:
    """A lane that is read where it is asked for."""

    def __init__(self, plan: LanePlan) -> None:
        self._lane = Lane(plan)
        self._steps = itertools.count()

    def __iter__(self) -> Iterator[Portion | End]:
        return self

    def __next__(self) -> Portion | End:
        return self._lane.read(next(self._steps))

    def close(self) -> None:
        self._lane.close()


class Lanes(dict[str, Lane]):
    """The lanes that this process has a part in, by their runs."""

    def lane(self, run: str, plan: LanePlan) -> Lane:
        if run not in self:
            self[run] = Lane(plan)
        return self[run]

    def end(self, run: str) -> None:
        """Close the iterator of a run, where there is one."""
        if lane := self.pop(run, None):
            lane.close()


def _are_alike(one: Portion | End, other: Portion | End) -> bool:
    if isinstance(one, End) or isinstance(other, End) or not one.parts or not other.parts:
        return False
    (tree, arrays), (other_tree, other_arrays) = one.parts, other.parts
    return bool(tree == other_tree) and all(
        a.dtype == b.dtype and a.tobytes() == b.tobytes()
        for a, b in zip(arrays, other_arrays, strict=True)
    )
