"""Epoch reads: each one rank's read of one epoch of a stream. Pure.

It has the steps that are leased, arrived and consumed, and its prefetch window. Messages and events
call it a run.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from launcher.data.control import host_of
from launcher.errors import WireError
from launcher.shared import MAX_WINDOW, USUAL_WINDOW

#: Batches ahead of a rank before a batch size is known, or before the rank has consumed any.
INITIAL_WINDOW = 2


@dataclass(frozen=True, kw_only=True)
class ReadSpec:
    """Specification of an epoch read, as its receiver opens it.

    name: its id. after: the id of the epoch read that the rank consumes before this one. For
    is_shard_reader, see EpochRead.
    """

    name: str
    receiver: str
    rank: int
    steps: int
    is_shard_reader: bool = False
    after: str | None = None


@dataclass(frozen=True, kw_only=True)
class ReadProgress:
    """The progress of an epoch read, as reported by its receiver.

    head: every step below it is consumed. early: steps beyond it that are consumed too. arrived:
    the workers that prepared the batches not consumed yet, by step. largest: bytes of the largest
    batch so far.
    """

    head: int = 0
    early: Collection[int] = ()
    arrived: Mapping[int, str] = field(default_factory=dict)
    largest: int = 0


@dataclass(eq=False)
class ReceiverBudget:
    """One receiver's memory budget in bytes, and the number of epoch reads that share it.

    window: maximum number of batches ahead of each rank.
    """

    budget: int
    readers: int = 0
    window: int = USUAL_WINDOW

    @property
    def bytes_per_read(self) -> int:
        """Bytes for each epoch read that is being consumed."""
        return self.budget // max(1, self.readers)


@dataclass(kw_only=True, eq=False)
class EpochRead:
    """One rank's read of one epoch of a stream.

    after: the epoch read that the rank consumes before this one, while that is open. active: the
    rank has started to consume; a read that no rank consumes holds at most INITIAL_WINDOW batches.

    is_shard_reader: the read covers one shard of an iterable dataset. Its steps are prepared in
    order by one worker, the owner, which has the iterator. If the owner cannot continue, another
    worker reads the shard from its start, or from a state of the dataset.
    """

    name: str
    receiver: str
    rank: int
    steps: int
    receiver_budget: ReceiverBudget
    last_consumed_at: float  # when its rank last consumed a batch
    is_shard_reader: bool = False
    owner: str | None = None
    after: EpochRead | None = None
    follower: EpochRead | None = None
    active: bool = False
    keeps_last: bool = False  # the last step is not leased yet
    largest: int = 0
    usual_seconds: float = 0.0  # moving average of a worker's seconds per batch
    turn: int = 0  # number of its latest lease, counted over all epoch reads
    next_unleased: int = 0  # the first step never leased
    head: int = 0  # the first step not consumed
    early: set[int] = field(default_factory=set)  # consumed beyond the head
    arrived: dict[int, str] = field(default_factory=dict)  # not consumed: which host prepared it
    holders: dict[int, set[str]] = field(default_factory=dict)  # leased, not arrived
    returned: list[int] = field(default_factory=list)  # heap of steps to lease again
    # Of workers while they prepared a step: their names, and when.
    deaths: dict[int, list[tuple[str, float]]] = field(default_factory=dict)

    # Window and leases --------------------------------------------------------------------

    @property
    def consumed(self) -> int:
        """Number of steps that the rank has consumed."""
        return self.head + len(self.early)

    @property
    def window(self) -> int:
        """Number of batches that may be leased or waiting ahead of the rank."""
        if self.after is not None:  # the part of the window that the read before no longer needs
            before = self.after
            spare = before.window - (before.next_unleased - before.consumed)
            return max(0, spare) if before.next_unleased == before.steps else 0
        if self.largest == 0:  # a rank has many shard readers
            return 1 if self.is_shard_reader else INITIAL_WINDOW
        most = self.receiver_budget.window if self.active else INITIAL_WINDOW
        return max(1, min(most, self.receiver_budget.bytes_per_read // self.largest))

    @property
    def _limit(self) -> int:
        """The step at which the window ends, exclusive."""
        return min(self.steps - self.keeps_last, self.consumed + self.window)

    def next_steps(self) -> Iterator[int]:
        """Yield the steps in the window to lease next: returned ones first, then new ones.

        The caller must lease each step before it asks for the next.
        """
        limit = self._limit
        while self.returned:
            if not self._is_missing(self.returned[0]):
                heapq.heappop(self.returned)
            elif self.returned[0] < limit:
                yield self.returned[0]
            else:
                break
        while self.next_unleased < limit:
            yield self.next_unleased

    def next_step(self) -> int | None:
        """Return the first of `next_steps`, or None."""
        return next(self.next_steps(), None)

    @property
    def end(self) -> int:
        """The first step that neither this dispatcher nor an earlier one can have leased."""
        return min(self.steps, self.consumed + MAX_WINDOW)

    def lease(self, step: int, worker: str) -> bool:
        """Record who holds a step; return False if it is not wanted or impossible."""
        if step >= self.end or self._is_done(step):
            return False
        self._reach(step)
        self.holders.setdefault(step, set()).add(worker)
        return True

    def give_back(self, step: int, worker: str) -> None:
        """Remove a holder that will not deliver; a step without holders is leased again."""
        holders = self.holders.get(step, set())
        holders.discard(worker)
        if step in self.holders and not holders:
            del self.holders[step]
            heapq.heappush(self.returned, step)

    def beyond_window(self) -> list[int]:
        """Return the leased steps that are outside the window after it has shrunk."""
        limit = self._limit
        return [step for step in self.holders if step >= limit]

    def awaited(self, count: int) -> Iterator[int]:
        """Return the leased steps among the next `count` that the rank will consume."""
        return (
            s
            for s in range(self.head, min(self.next_unleased, self.head + count))
            if s in self.holders
        )

    def _reach(self, step: int) -> None:
        """Advance `next_unleased` past a step; any steps skipped on the way are to be leased.

        A restarted dispatcher learns of steps in any order.
        """
        for skipped in range(self.next_unleased, step):
            heapq.heappush(self.returned, skipped)
        self.next_unleased = max(self.next_unleased, step + 1)

    def _is_done(self, step: int) -> bool:
        return step < self.head or step in self.arrived or step in self.early

    def _is_missing(self, step: int) -> bool:
        return not self._is_done(step) and step not in self.holders

    # Updates from receivers ---------------------------------------------------------------

    def arrive(self, step: int, worker: str, size: int) -> bool:
        """Record that a batch has arrived; return False if that was known or is impossible."""
        if step >= self.end or self._is_done(step):
            return False
        self._reach(step)
        self.largest = max(self.largest, size)
        self.arrived[step] = host_of(worker)
        self.holders.pop(step, None)
        return True

    def record_seconds(self, seconds: float) -> None:
        """Update the usual seconds per batch with a new measurement."""
        self.usual_seconds = (
            seconds if not self.usual_seconds else 0.9 * self.usual_seconds + 0.1 * seconds
        )

    def consume(self, step: int, now: float) -> str | None:
        """Record that the rank has consumed a batch.

        Returns the host that prepared it, or None if that was known already.
        """
        host = self.arrived.pop(step, None)
        if host is None:
            return None
        self.last_consumed_at = now
        self.early.add(step)
        while self.head in self.early:
            self.early.remove(self.head)
            self.head += 1
        return host

    def set_progress(self, progress: ReadProgress) -> None:
        """Continue from the receiver's progress; leases are kept."""
        self.head, self.early = progress.head, set(progress.early)
        self.active = self.active or self.consumed > 0
        self.largest = max(self.largest, progress.largest)
        self.arrived = {step: host_of(worker) for step, worker in progress.arrived.items()}
        self.holders = {s: names for s, names in self.holders.items() if not self._is_done(s)}
        known = [
            self.next_unleased,
            self.head,
            *(step + 1 for step in [*self.early, *self.arrived]),
        ]
        self.next_unleased = max(known)
        self.returned = [s for s in range(self.head, self.next_unleased) if self._is_missing(s)]


@dataclass(kw_only=True)
class ConsumedCounts:
    """Batches consumed by the ranks of one receiver, counted by preparing host and by rank."""

    prepared: Counter[str] = field(default_factory=Counter)
    received: Counter[int] = field(default_factory=Counter)

    @classmethod
    def from_message(
        cls, prepared: Mapping[str, int], received: Mapping[str, int]
    ) -> ConsumedCounts:
        """Build the counts from a receiver's message.

        JSON keys are strings, so ranks are parsed here; raises WireError for a key that is not a
        number.
        """
        try:
            by_rank = {int(rank): count for rank, count in received.items()}
        except ValueError as error:
            raise WireError(f"a rank that is not a number: {error}") from error
        return cls(prepared=Counter(prepared), received=Counter(by_rank))
