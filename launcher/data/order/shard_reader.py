"""Shard readers for iterable datasets: live iterators that resume, rewind and stay isolated.

A shard reader is built from its plan alone (see `shards`). The dataset is created anew by its
function, as each torch worker process has its own copy, and the random states are seeded from
(seed, epoch, shard). Batch n of a shard is therefore the same bytes wherever and however often it
is read. A reader that is asked for an earlier batch than its next one starts over, or goes on from
a saved state of the dataset.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from launcher.data.batches import structure
from launcher.data.order import samples, saved_states
from launcher.data.order.current_shard import CurrentShard, as_current
from launcher.data.order.original_error_types import with_type_of
from launcher.data.order.saved_states import SavedState, SavedStates
from launcher.data.order.set_epoch import call_set_epoch
from launcher.data.order.shard_interleaving import ShardBatch, ShardEnd
from launcher.data.order.shards import ShardReaderPlan
from launcher.data.order.user_code import error_repr, error_text, latest_traceback
from launcher.data.order.verification import fingerprint
from launcher.data.repeatable import (
    EntropyStream,
    HeldGenerators,
    OneThread,
    RandomStates,
    patch_webdataset,
    pool_tasks,
    preserve_random_states,
    seeding,
)
from launcher.errors import DataError, SampleError
from launcher.runtime import log_event

_T = TypeVar("_T")
_END = object()


class ShardReader:
    """Live iterator over one shard in one pass, created when first needed.

    saved: the states of its dataset; None to save and use none.
    """

    def __init__(
        self,
        plan: ShardReaderPlan,
        given: samples.GivenObjects = samples.NO_OBJECTS,
        saved: SavedStates | None = None,
    ) -> None:
        self._plan = plan
        self._given = given
        self._saved = saved
        if saved is not None:
            saved.add(plan.prefix.states)
        self._shard = CurrentShard(plan.shard, plan.spec.shards)
        self._seed = seeding.sample_seed(plan.spec.seed, plan.epoch, plan.number, purpose=b"shard")
        base = seeding.sample_seed(plan.spec.seed, plan.epoch, plan.pass_index, purpose=b"base")
        self._worker_seed = (base >> 2) + plan.shard  # as torch's workers, which share the base
        self._dataset: Any = None
        self._iterator: Iterator[Any] | None = None
        self._states: RandomStates | None = None  # random states to resume with
        self._held: HeldGenerators | None = None  # of a dataset that can resume
        self._seeded: dict[str, str] = {}  # its random states before it was read
        self._state: SavedState | None = None  # saved since the latest batch
        self._began_from: SavedState | None = None
        self._were_tasks_drawing = False
        self._next = self._taken = 0  # batches and samples read so far
        self._fingerprint = ""  # of the batches read so far

    def read(self, step: int) -> ShardBatch | ShardEnd:
        """Return the batch of a step, or `ShardEnd` if the shard ends before it.

        Leaves the process's random states unchanged. Raises SampleError when the dataset raises,
        and DataError for samples that cannot be collated to a batch.
        """
        index = self._plan.first + step
        with preserve_random_states():
            self._skip(index)
            follows = self._fingerprint
            found = self._advance(index + 1)
            if not found:
                return ShardEnd(batches=self._next, follows=follows)
            parts = self._batch(found, index)
            shard_batch = ShardBatch(
                samples=len(found),
                parts=parts,
                follows=follows,
                fingerprint=self._fingerprint,
                state=self._state,
            )
            self._state = None
        if index == 0 and not self._shard.asked and self._shard.count > 1:
            self._check_sharding(shard_batch)
        return shard_batch

    def find(self, step: int) -> None:
        """Advance until the batch of `step` is the next one, as `read` would."""
        with preserve_random_states():
            self._skip(self._plan.first + step)

    def close(self) -> None:
        """Close the iterator and release the dataset."""
        iterator, self._iterator = self._iterator, None
        if (close := getattr(iterator, "close", None)) is not None:
            try:
                with preserve_random_states(), self._as_current():
                    close()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's `finally`
                why = f"the iterator of {self._plan.spec.dataset} raised when closed: {error!r}"
                log_event(
                    "iterator_not_closed",
                    logging.WARNING,
                    dataset=self._plan.spec.dataset,
                    why=why,
                )
        self._dataset = self._held = None

    # ---------------------------------------------------------------------------------------

    def _as_current(self) -> contextlib.AbstractContextManager[None]:
        return as_current(self._shard, seed=self._worker_seed, dataset=self._dataset)

    def _skip(self, end: int) -> None:
        """Advance to batch `end` or the end of the shard; what is skipped has a fingerprint too."""
        is_behind = self._iterator is not None and self._next <= end
        pair = self._saved.pair(end) if self._saved else None
        if pair is not None and not (is_behind and pair[0].batches <= self._next):
            is_behind = self._resume(*pair, end)
        if not is_behind:
            self._begin()
            if end == self._plan.first and pair is None:
                self._log_read_again(end)
        self._read_on(end)

    def _log_read_again(self, batches: int) -> None:
        """Log that a dataset which may have states is read from its start up to here."""
        if batches and self._held is not None and self._saved is not None and self._saved.are_exact:
            log_event(
                "shard_read_again",
                dataset=self._plan.spec.dataset,
                shard=self._shard.index,
                batches=batches,
            )

    def _read_on(self, end: int) -> None:
        while self._next < end and (found := self._advance(self._next + 1)):
            self._batch(found, self._next - 1)

    def _advance(self, end: int) -> list[Any]:
        """Advance to batch `end` or the end of the shard.

        Returns the samples of the last batch if this call read it, else [].
        """
        if self._iterator is None or end < self._next:
            self._begin()
        if self._next == end:
            return []
        had_torch = "torch" in sys.modules
        found: list[Any] = []
        with self._as_current(), self._own_states():
            while self._next < end and (found := self._pull()):
                self._next += 1
        if (had_torch or "torch" not in sys.modules) and not self._have_tasks_drawn():
            return found
        # The dataset's own code just imported torch, which had no shard and no seed set yet, or
        # tasks of its thread pool draw, and did so in any order until this was known.
        if self._saved is not None:
            self._saved.forget()
        self._log_read_again(end - 1)
        self.close()
        self._skip(end - 1)
        return self._advance(end)

    def _have_tasks_drawn(self) -> bool:
        """Return whether it was found only now that tasks draw from the global generators."""
        stream = self._states and self._states.stream
        is_found = pool_tasks.are_drawing != self._were_tasks_drawing
        return bool(is_found and stream and stream.has_started)

    @contextlib.contextmanager
    def _own_states(self) -> Iterator[None]:
        if self._states is not None:
            self._states.restore()
        yield
        self._states = RandomStates.now()

    def _resume(self, older: SavedState, latest: SavedState, end: int) -> bool:
        """Go on from a state; return False if what follows is not what followed when it was saved.

        That is read up to the latest state, which must be the same, too, and to the plan's first.
        """
        plan = self._plan
        try:
            with self._given.restored_on_error(plan.spec):
                self._begin(older)
                self._check_next(latest.batches, latest.fingerprint)
                if self._random_states() != latest.random:
                    raise DataError(
                        "after load_state_dict(), its random generators are not as before"
                    )
                if latest.batches <= plan.first <= end and plan.prefix.fingerprint:
                    self._check_next(plan.first, plan.prefix.fingerprint)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's code
            self._forgo_states(error)
            return False
        if self._began_from is older:
            log_event(
                "shard_resumed",
                dataset=plan.spec.dataset,
                shard=self._shard.index,
                samples=older.samples,
            )
        return True

    def _check_next(self, end: int, expected: str) -> None:
        """Read on to a batch, and raise unless the fingerprint is that of the first reading."""
        self._read_on(end)
        if self._next != end or self._fingerprint != expected:
            raise DataError("after load_state_dict(), it gives other samples than before")

    def _forgo_states(self, error: BaseException) -> None:
        if self._saved is None or not self._saved.give_up():
            return
        dataset = self._plan.spec.dataset
        reason = error_text(error) if isinstance(error, DataError) else error_repr(error)
        why = (
            f"{dataset} cannot go on from its state_dict() where a worker is lost or the job "
            f"resumes, so a shard is then read from its start: {reason.partition(chr(10))[0]}"
        )
        log_event("dataset_not_resumed", logging.WARNING, dataset=dataset, why=why)

    def _save(self) -> None:
        """Save the dataset's state after the latest batch, if it is time for that."""
        held = self._held
        if held is None or self._saved is None or not self._saved.is_due(self._next):
            return
        try:
            self._state = self._saved.save(lambda: self._state_now(held))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's state_dict
            self._forgo_states(error)

    def _state_now(self, held: HeldGenerators) -> SavedState:
        """Return the state now; the random states stay as they are."""
        with self._as_current(), self._own_states():
            random = held.states()
            try:
                state = self._dataset.state_dict()
            finally:
                held.restore(random)
        return SavedState(
            batches=self._next,
            samples=self._taken,
            fingerprint=self._fingerprint,
            dataset=saved_states.encode(state),
            random=self._changed(random),
        )

    def _random_states(self) -> dict[str, str]:
        assert self._held is not None  # it has a state, and has not ended
        with self._own_states():
            return self._changed(self._held.states())

    def _changed(self, random: dict[str, Any]) -> dict[str, str]:
        """Return the random states that reading has changed, or that were made by it, encoded."""
        encoded = saved_states.encode_each(random)
        return {name: each for name, each in encoded.items() if self._seeded.get(name) != each}

    def _begin(self, state: SavedState | None = None) -> None:
        self.close()
        self._next = self._taken = 0
        self._fingerprint = ""
        self._began_from, self._state = state, None
        self._given.import_code(self._plan.spec)
        # Random numbers drawn while the dataset is created are the same for all shards, so that a
        # list of files can be shuffled here and split into shards later.
        stream = EntropyStream(keeps=False)
        seeding.seed_everything(
            seeding.sample_seed(self._plan.spec.seed, self._plan.epoch, 0, purpose=b"dataset"),
            stream,
        )
        self._dataset = self._given.build(self._plan.spec, self._plan.epoch)
        call_set_epoch(self._dataset, self._plan.epoch)
        self._given.initialise(self._dataset, self._plan.spec, self._shard, self._worker_seed)
        patch_webdataset()
        seeding.seed_everything(self._seed, stream)
        self._were_tasks_drawing = pool_tasks.are_drawing
        is_saved = self._note_seeded()
        with self._as_current():
            if state is not None:
                loaded = saved_states.decode(state.dataset)
                self._called(lambda: self._dataset.load_state_dict(loaded))
            self._iterator = self._called(lambda: iter(self._dataset))
        if is_saved:
            self._held = HeldGenerators(self._dataset, self._iterator)
        if state is not None and self._held is not None:
            random = {**self._seeded, **state.random}
            self._held.restore({name: saved_states.decode(each) for name, each in random.items()})
            self._next, self._taken = state.batches, state.samples
            self._fingerprint = state.fingerprint
        self._states = RandomStates.now()

    def _note_seeded(self) -> bool:
        """Note the random states before the dataset is read; return whether its own are saved."""
        if self._saved is None or not self._saved.are_exact:
            return False
        if not saved_states.can_resume(self._dataset):
            return False
        try:
            self._seeded = saved_states.encode_each(HeldGenerators(self._dataset).states())
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's generators
            self._forgo_states(error)
        return self._saved.are_exact

    def _pull(self) -> list[Any]:
        """Read the samples of the next batch."""
        found: list[Any] = []
        size = self._plan.spec.batch_size or 1
        while len(found) < size:
            sample = self._called(lambda: next(self._iterator or iter(()), _END))
            if sample is _END:
                self._release()
                return [] if self._plan.spec.drop_last else found
            found.append(sample)
            self._taken += 1
        return found

    def _release(self) -> None:
        """Release everything of an exhausted shard; later reads find only its end."""
        self._dataset, self._iterator, self._held = None, iter(()), None

    def _called(self, users_code: Callable[[], _T]) -> _T:
        try:
            return users_code()
        except (Exception, SystemExit) as error:  # the user's code may raise anything
            self._iterator = None  # a generator that raised is finished: start over
            sample_error = SampleError(
                f"{self._plan.spec.dataset} raised {type(error).__name__} in shard "
                f"{self._shard.index} of {self._shard.count}, after {self._taken} samples of it: "
                f"{error_text(error)}",
                index=self._taken,
                remote_traceback=latest_traceback(),
            )
            raise with_type_of(sample_error, error) from error

    def _batch(self, found: Sequence[object], index: int) -> tuple[Any, list[structure.Array]]:
        """Collate the batch of this index, with random numbers that depend on it alone."""
        plan = self._plan
        batch = samples.make_batch(
            found,
            plan.spec,
            plan.epoch,
            (plan.number << 32) + index,
            lambda: plan.describe_batch(index - plan.first),
            self._given,
        )
        tree, arrays = structure.disassemble(batch, **plan.spec.sending)
        self._fingerprint = fingerprint(tree, arrays, self._fingerprint)
        self._save()
        return tree, arrays

    def _check_sharding(self, first: ShardBatch) -> None:
        """Raise when the dataset gives the same samples in another shard."""
        spec, shard = self._plan.spec, self._plan.shard
        other = (shard + 1) % spec.shards
        reader = ShardReader(replace(self._plan, shard=other), self._given)
        reader._shard.asked = True  # once is enough
        try:
            are_alike = _are_alike(reader.read(0), first)
        finally:
            reader.close()
        if are_alike:
            raise DataError(
                f"{spec.dataset} is read in shards={spec.shards}, but gives the same samples in "
                f"shards {shard} and {other}, so each sample would occur {spec.shards} times; let "
                "its __iter__ yield the samples of one shard, by torch's get_worker_info() or "
                "launcher.data.shard(), or give the loader shards=1"
            )
        log_event(
            "shard_not_queried",
            logging.WARNING,
            dataset=spec.dataset,
            shard=shard,
            shards=spec.shards,
        )


class LocalShardReader:
    """Shard reader that runs in the process that asks for the batches."""

    def __init__(
        self,
        plan: ShardReaderPlan,
        given: samples.GivenObjects = samples.NO_OBJECTS,
        one_thread: OneThread | None = None,
        saved: SavedStates | None = None,
    ) -> None:
        self._reader = ShardReader(plan, given, saved)
        self._one_thread = one_thread or OneThread()
        self._steps = itertools.count()

    def __iter__(self) -> Iterator[ShardBatch | ShardEnd]:
        return self

    def __next__(self) -> ShardBatch | ShardEnd:
        read = functools.partial(self._reader.read, next(self._steps))
        with self._one_thread:
            return self._one_thread.call(read)

    def close(self) -> None:
        """Close the shard reader."""
        self._reader.close()


class ShardReaders(dict[str, ShardReader]):
    """The shard readers of this process, keyed by epoch read."""

    def reader(
        self, run: str, plan: ShardReaderPlan, saved: SavedStates | None = None
    ) -> ShardReader:
        """Return the shard reader of an epoch read, created on first use."""
        if run not in self:
            self[run] = ShardReader(plan, saved=saved)
        return self[run]

    def end(self, run: str) -> None:
        """Close and remove the shard reader of an epoch read, if there is one."""
        if reader := self.pop(run, None):
            reader.close()


def _are_alike(one: ShardBatch | ShardEnd, other: ShardBatch | ShardEnd) -> bool:
    if isinstance(one, ShardEnd) or isinstance(other, ShardEnd) or not one.parts or not other.parts:
        return False
    (tree, arrays), (other_tree, other_arrays) = one.parts, other.parts
    return bool(tree == other_tree) and all(
        a.dtype == b.dtype and a.tobytes() == b.tobytes()
        for a, b in zip(arrays, other_arrays, strict=True)
    )
