"""Batches of the data service, read from this host's receiver."""

from __future__ import annotations

import collections
import contextlib
import os
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field

from launcher.data.batches import wire
from launcher.data.control import messages as m
from launcher.data.memory import HeldBatches, Pinning, ReceiverClient, SlabViews, aligned_copy
from launcher.data.order import (
    BatchPlan,
    Description,
    Parts,
    ShardBatch,
    ShardEnd,
    ShardPlan,
    ShardReaderPlan,
    Step,
    read_parts,
    unpack,
    with_original_type,
)
from launcher.data.receiver import MAX_COALESCED
from launcher.errors import DataError, DataServiceUnavailable, SampleError
from launcher.runtime import emit, wait_for_data, wait_for_first_contact
from launcher.shared import backoff, token_hex

#: Seconds for this host's receiver to open its socket; it starts at the same time as the ranks.
_RECEIVER_START_TIMEOUT = 60.0
#: Seconds without a message from the receiver after which the rank logs what it waits for.
_LOG_AWAITED_EVERY = 30.0
#: The rank reports the batches it took at most once in `_REPORT_EVERY` seconds, or in
#: `_REPORT_WHEN_STARVED` seconds while it waits, because each message costs as much CPU time as
#: receiving half a megabyte. It sends no report while it takes more than `_FAST_BATCHES` in that
#: time, and the receiver, which reads the marks of slabs, has yet to see at most `MAX_COALESCED`.
_REPORT_EVERY = 0.02
_FAST_BATCHES = 3
_REPORT_WHEN_STARVED = 0.02  # longer than quick batches are held back to be coalesced
#: Seconds without a batch after which those that the script holds no longer count.
_GIVE_UP_HELD = 0.5
_RECEIVER_GONE = "the receiver of this host is gone"
#: Number of times that this process has started to read each stream, by its name.
_read_counts: collections.Counter[str] = collections.Counter()


@dataclass(eq=False)
class _ReceivedRun:
    """An epoch read that this process has opened, and its messages that are not yet consumed."""

    name: str
    plan: BatchPlan | ShardReaderPlan
    awaited: str  # for the log
    batches: collections.deque[m.Batch] = field(default_factory=collections.deque)
    failed: m.RunFailed | None = None


class ServiceSource:
    """Reads batches from this host's receiver.

    It uses one connection, with at most one epoch read in progress and one prepared after it. No
    thread runs in the training process: a batch waits in the receiver's shared memory, and its
    message in the socket, until the training loop requests it.
    """

    def __init__(self, receiver: str, pinning: Pinning | None = None) -> None:
        self._pinning = pinning
        #: Seconds to wait for a batch; 0 for as long as the service exists.
        self.timeout = 0.0
        self._process = os.getpid()
        self._unreported: list[m.Batch] = []  # taken and not yet reported
        self._held: HeldBatches | None = None
        self._next_report = 0.0
        self._released: collections.deque[int] = collections.deque()
        # Arrays keep a reference to this object, and so to the connection, while they live: the
        # receiver reuses a slab when it is released, or when the connection has ended.
        self._views = SlabViews(self._released, pinning, owner=self)
        self._client = wait_for_first_contact(_connect, receiver, self._views)
        self._runs: dict[str, _ReceivedRun] = {}
        self._current: _ReceivedRun | None = None
        self._prepared: _ReceivedRun | None = None

    def count_held(self, limit: int) -> None:
        """Report batches of map-style datasets as consumed when the script releases them.

        limit: bytes that may be held so, with those that arrive; a batch beyond them is copied.
        """
        self._held = HeldBatches(limit)

    def describe(self, dataset: str) -> Description:
        """Request the description of a dataset.

        Raises DataError when the dataset cannot be built, and DataServiceUnavailable.
        """
        self._send(m.Describe(dataset=dataset))
        while True:
            answer = wait_for_first_contact(self._receive, f"the description of {dataset}")
            if isinstance(answer, m.Length) and answer.dataset == dataset:
                break
            self._route(answer)
        if answer.error:
            raise (DataServiceUnavailable if answer.unavailable else DataError)(answer.error)
        return Description(length=answer.length, iterable=answer.iterable)

    def batches(self, plan: BatchPlan | ShardPlan) -> Generator[tuple[Step, Parts], None, None]:
        """Yield the steps of a plan and their batches.

        Raises SampleError, DataError or DataServiceUnavailable when the epoch read fails.
        """
        if isinstance(plan, ShardPlan):
            yield from read_parts(
                plan, lambda reader_plan: _ServiceShardReader(self, reader_plan, plan.rank)
            )
            return
        _read_counts[plan.spec.name] += 1
        run = self._current = self._prepared_for(plan) or self._open(
            plan, plan.rank, reading=_read_counts[plan.spec.name]
        )
        try:
            for _ in range(plan.steps):
                batch = self._next_batch(run)
                yield batch.step, self._take(batch)  # keep no reference
        finally:
            self._close(run)

    def prepare(self, plan: BatchPlan) -> None:
        """Open the next epoch read; replaces the one prepared before."""
        self.close()  # what was prepared before
        self._prepared = self._open(plan, plan.rank, after=self._current)

    def report(self, stream: str, figures: Mapping[str, float]) -> None:
        """Send this rank's counters of a stream; other methods raise for a lost connection."""
        of, process = f"{os.environ.get('RANK', 0)}/{stream}", str(os.getpid())
        with contextlib.suppress(DataServiceUnavailable):
            self._send(m.Report(kind="rank", of=of, process=process, figures=dict(figures)))

    def close(self) -> None:
        """Close the prepared epoch read, if there is one."""
        if self._prepared is not None:
            self._close(self._prepared)
            self._prepared = None

    # ---------------------------------------------------------------------------------------

    def _open(
        self,
        plan: BatchPlan | ShardReaderPlan,
        rank: int,
        after: _ReceivedRun | None = None,
        reading: int = 0,
    ) -> _ReceivedRun:
        rank = int(os.environ.get("RANK", rank))
        name = f"{rank}-{plan.epoch}-{token_hex(6)}"
        run = _ReceivedRun(name, plan, f"a batch of {plan.spec.name}")
        self._runs[run.name] = run
        self._send(
            m.OpenRun(
                run=run.name,
                rank=rank,
                plan=m.encode_plan(plan),
                after=after.name if after else None,
                in_order=plan.spec.in_order,
                reading=reading,
            )
        )
        return run

    def _prepared_for(self, plan: BatchPlan) -> _ReceivedRun | None:
        """Return the epoch read that was prepared, if it has this plan; close it otherwise."""
        run, self._prepared = self._prepared, None
        if run is not None and run.plan != plan:
            self._close(run)
            return None
        return run

    def _close(self, run: _ReceivedRun) -> None:
        if self._runs.pop(run.name, None) is None or os.getpid() != self._process:
            return  # a fork must not close its parent's epoch reads
        for batch in run.batches:
            self._released.append(batch.slab)
        self._return_slabs()
        with contextlib.suppress(DataServiceUnavailable):  # already raised
            self._send(m.CloseRun(run=run.name))

    def _next_batch(self, run: _ReceivedRun) -> m.Batch:
        if self._released:
            self._return_slabs()
        while not run.batches:
            if run.failed is not None:
                raise _as_error(run.failed)
            message = self._receive(run.awaited, self.timeout)
            if type(message) is m.Batch and message.run == run.name:
                return message
            self._route(message)
        return run.batches.popleft()

    def _take(self, batch: m.Batch) -> Parts:
        """Unpack a batch that becomes the script's, and mark it as taken now or when released."""
        held = self._held
        if held is not None and not held.begins(batch):
            if held.add(batch):
                return self._unpack_batch(batch)
            self._mark_taken(batch)
            return wire.unpack(
                aligned_copy(self._views.payload(batch.slab, batch.size)), batch.content
            )
        self._mark_taken(batch)
        return self._unpack_batch(batch)

    def _unpack_batch(self, batch: m.Batch) -> Parts:
        return wire.unpack(self._views.payload(batch.slab, batch.size), batch.content)

    def _route(self, message: m.Message | m.Batch) -> None:
        """Queue a message for its epoch read; release a batch of a read that was closed."""
        if isinstance(message, m.Batch):
            if (run := self._runs.get(message.run)) is None:
                self._released.append(message.slab)
            else:
                run.batches.append(message)
        elif isinstance(message, m.RunFailed) and message.run in self._runs:
            self._runs[message.run].failed = message

    def _return_slabs(self) -> None:
        """Return slabs that no array refers to any more to the receiver."""
        # Other threads may append meanwhile.
        slabs = [self._released.popleft() for _ in range(len(self._released))]
        if self._held is not None:
            for batch in filter(None, map(self._held.release, slabs)):
                self._mark_taken(batch)
        for slab in slabs if self._pinning is None else self._pinning.copied(slabs):
            self._views.give_back(slab)

    def _mark_taken(self, batch: m.Batch) -> None:
        """Mark a batch as taken in shared memory, and report it in case no other batch follows."""
        self._views.take(batch.slab)
        self._unreported.append(batch)
        if (now := time.monotonic()) < self._next_report:
            return
        if len(self._unreported) > _FAST_BATCHES and len(unseen := self._unseen()) <= MAX_COALESCED:
            self._unreported = unseen
            self._next_report = now + _REPORT_EVERY
        else:
            self._send()

    def _unseen(self) -> list[m.Batch]:
        """Return the unreported batches after the last one whose mark the receiver has seen."""
        for count in range(len(self._unreported), 0, -1):
            if self._views.is_seen(self._unreported[count - 1].slab):
                return self._unreported[count:]
        return self._unreported

    def _send(self, *messages: m.Message) -> None:
        """Send the report of batches taken, and other messages."""
        unreported: dict[str, list[int]] = {}
        for batch in self._unreported:
            unreported.setdefault(batch.run, []).append(batch.step)
        taken = [m.Consumed(run=run, steps=steps) for run, steps in unreported.items()]
        self._unreported = []
        self._next_report = time.monotonic() + _REPORT_EVERY
        try:
            wait_for_data(self._client.send, *taken, *messages)
        except OSError as error:
            raise DataServiceUnavailable(_RECEIVER_GONE) from error

    def _receive(self, awaited: str, timeout: float = 0.0) -> m.Message | m.Batch:
        """Receive the next message; log what is awaited while none arrives."""
        since = time.monotonic()
        try:
            while True:
                is_soon = bool(self._unreported or self._held)
                patience = _REPORT_WHEN_STARVED if is_soon else _LOG_AWAITED_EVERY
                if timeout:
                    patience = min(patience, _seconds_left(awaited, since, timeout))
                if (message := wait_for_data(self._client.receive, patience)) is not None:
                    return message
                if self._held:
                    self._release_held(time.monotonic() - since)
                if self._unreported:
                    self._send()
                elif patience == _LOG_AWAITED_EVERY:
                    emit("data_awaited", what=awaited, seconds=round(time.monotonic() - since))
        except OSError as error:
            raise DataServiceUnavailable(_RECEIVER_GONE) from error

    def _release_held(self, waited: float) -> None:
        """Report batches that were released, or all that are held if none arrives otherwise."""
        assert self._held is not None
        self._return_slabs()
        if self._held and waited > _GIVE_UP_HELD:
            for batch in self._held.give_up():
                self._mark_taken(batch)


def _seconds_left(awaited: str, since: float, timeout: float) -> float:
    """Return the seconds until the loader's timeout; raises DataServiceUnavailable at its end."""
    if (left := since + timeout - time.monotonic()) <= 0:
        raise DataServiceUnavailable(
            f"{awaited} did not arrive within the loader's timeout={timeout:g} s; the data hosts' "
            "events show what they do: fix the dataset, or give the loader a longer timeout"
        )
    return left


class _ServiceShardReader:
    """Reader of a shard that is an epoch read of its own, prepared by one worker at a time."""

    def __init__(self, source: ServiceSource, plan: ShardReaderPlan, rank: int) -> None:
        self._source = source
        self._run = source._open(plan, rank)

    def __iter__(self) -> Iterator[ShardBatch | ShardEnd]:
        return self

    def __next__(self) -> ShardBatch | ShardEnd:
        batch = self._source._next_batch(self._run)
        item = unpack(*self._source._unpack_batch(batch))
        if isinstance(item, ShardBatch):
            self._source._mark_taken(batch)
        return item

    def close(self) -> None:
        self._source._close(self._run)


def _connect(receiver: str, views: SlabViews) -> ReceiverClient:
    last: OSError | None = None
    for _ in backoff(first=0.05, longest=0.05, timeout=_RECEIVER_START_TIMEOUT):
        try:
            return ReceiverClient(receiver, views)
        except OSError as error:  # noqa: PERF203 - each attempt may fail on its own
            last = error
    raise DataServiceUnavailable(
        f"the receiver of this host did not start within {_RECEIVER_START_TIMEOUT:.0f} s"
    ) from last


def _as_error(failed: m.RunFailed) -> DataError:
    if failed.kind == "unavailable":
        return DataServiceUnavailable(failed.message)
    error = DataError(failed.message)
    if failed.kind == "sample":
        error = SampleError(
            failed.message, index=failed.index, remote_traceback=failed.remote_traceback
        )
    return with_original_type(error, failed.type_names)
