"""The worker pool: each worker's leases and speed, and which takes the next batch soonest. Pure.

Workers that are ready wait in a `PriorityQueue`, and so do the epochs that want a batch.
"""

from __future__ import annotations

import heapq
import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

_Item = TypeVar("_Item", bound=Hashable)
#: Stale entries of moved items are removed once they exceed the valid ones by this many.
_CLUTTER = 64


class PriorityQueue(Generic[_Item]):
    """Items ordered by key, smallest first; items with equal keys keep their insertion order.

    Each operation takes O(log n), amortised.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, _Item]] = []
        self._entries: dict[_Item, int] = {}  # the number of each item's valid entry
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, item: _Item, key: object) -> None:
        """Insert an item, or move it to a new key."""
        number = next(self._numbers)
        self._entries[item] = number
        heapq.heappush(self._heap, (key, number, item))
        if len(self._heap) > 2 * len(self._entries) + _CLUTTER:
            self._heap = [entry for entry in self._heap if self._is_current(entry)]
            heapq.heapify(self._heap)

    def drop(self, item: _Item) -> None:
        """Remove an item if it is present."""
        self._entries.pop(item, None)

    def pop(self) -> _Item | None:
        """Remove and return the first item; None when empty."""
        while self._heap:
            entry = heapq.heappop(self._heap)
            if self._is_current(entry):
                del self._entries[entry[2]]
                return entry[2]
        return None

    @property
    def first_key(self) -> Any:
        """The key of the first item; None when empty."""
        while self._heap and not self._is_current(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _is_current(self, entry: tuple[object, int, _Item]) -> bool:
        return self._entries.get(entry[2]) == entry[1]


#: Seconds of work that a worker should have queued.
QUEUED_SECONDS = 0.1
#: Seconds of work leased at once: with more, a rank would wait for one worker.
BLOCK_SECONDS = 0.01
#: Maximum number of leases that one worker holds.
MAX_LEASES = 64
#: Seconds without a sign of life after which a worker's leases go to others. Workers send a
#: heartbeat once a second, so this is two missed heartbeats and some slack.
SILENCE = 2.5
#: A worker that takes this many times the usual seconds per batch gets one lease at a time.
SLOW_FACTOR = 4.0

#: An epoch read and one of its steps.
Lease = tuple[str, int]


@dataclass(kw_only=True, eq=False)
class WorkerState:
    """State of one worker.

    seconds: time it takes per batch, as it reports; 0 before the first. receiver: the only receiver
    it serves, for a worker on a train host.
    """

    name: str
    last_seen: float
    seconds: float = 0.0
    leases: dict[Lease, float] = field(default_factory=dict)  # lease -> time it was granted
    sent: set[Lease] = field(default_factory=set)  # reported as sent, not arrived yet
    last_arrival_at: float = 0.0  # when its latest batch arrived
    silent: bool = False
    slow: bool = False
    leaving: bool = False
    receiver: str | None = None
    shard_readers: set[str] = field(
        default_factory=set
    )  # the epoch reads whose shard readers it owns

    def serves(self, receiver: str) -> bool:
        """Return True if this worker can send to the receiver.

        A worker on a train host serves only that host's receiver.
        """
        return self.receiver in (None, receiver)

    @property
    def depth(self) -> int:
        """Number of leases that keep it busy for QUEUED_SECONDS seconds, plus one."""
        if self.slow:
            return 1
        if not self.seconds:
            return 2
        return min(MAX_LEASES, max(2, math.ceil(QUEUED_SECONDS / self.seconds) + 1))

    @property
    def room(self) -> int:
        """Number of further leases it can take; 0 when silent or leaving."""
        return 0 if self.silent or self.leaving else self.depth - len(self.leases)

    @property
    def block(self) -> int:
        """Number of batches to lease to it at once."""
        fast = int(BLOCK_SECONDS / self.seconds) if self.seconds else 1
        return max(1, min(self.room, fast))

    @property
    def wants_leases(self) -> bool:
        """True if it should get more leases.

        That is at half its depth, so that leases are sent in blocks.
        """
        return self.room > 0 and len(self.leases) <= self.depth // 2

    def finished(self, lease: Lease, now: float) -> float | None:
        """Return the seconds an arrived batch took, or None if it was not leased to this worker."""
        since = self.leases.pop(lease, None)
        self.sent.discard(lease)
        before, self.last_arrival_at = self.last_arrival_at, now
        return None if since is None else now - max(since, before)

    def started_at(self, lease: Lease) -> float:
        """Return the estimated time at which it started a batch.

        A worker prepares its batches in order, so that is the later of the lease and its last
        arrival.
        """
        return max(self.leases[lease], self.last_arrival_at)


class WorkerPool:
    """All workers by name, and queues of those that should get more leases, soonest first."""

    def __init__(self) -> None:
        self._workers: dict[str, WorkerState] = {}
        # By the only receiver that they serve (None: any), so that a batch for one train host is
        # not offered to all the workers of the others.
        self._ready: defaultdict[str | None, PriorityQueue[WorkerState]] = defaultdict(
            PriorityQueue
        )

    def __iter__(self) -> Iterator[WorkerState]:
        return iter(self._workers.values())

    def __len__(self) -> int:
        return len(self._workers)

    def get(self, name: str) -> WorkerState | None:
        """Return the worker of this name, or None."""
        return self._workers.get(name)

    def add(self, worker: WorkerState) -> None:
        """Add a worker and queue it for leases."""
        self._workers[worker.name] = worker
        self.offer(worker)

    def remove(self, name: str) -> WorkerState | None:
        """Remove and return the worker of this name, or return None if there is none."""
        worker = self._workers.pop(name, None)
        if worker is not None:
            self._ready[worker.receiver].drop(worker)
        return worker

    def offer(self, worker: WorkerState) -> None:
        """Queue a worker for leases if it should get more."""
        if worker.wants_leases:
            self.put_back(worker)

    @property
    def has_ready(self) -> bool:
        """True if any worker is queued for leases."""
        return any(self._ready.values())

    def pop_soonest(self, receiver: str, without: Collection[str] = ()) -> WorkerState | None:
        """Remove and return the queued worker that will start a new batch soonest.

        Call `put_back` after use.
        """
        passed = []
        while (worker := self._pop(receiver)) is not None:
            if worker.name not in without and worker.room > 0:
                break
            passed.append(worker)
        for other in passed:
            self.put_back(other)
        return worker

    def _pop(self, receiver: str) -> WorkerState | None:
        """Remove and return the first queued worker that serves a receiver.

        Of a worker of its own host and another that would start as soon, it is the former, which
        needs no network.
        """
        own, others = self._ready[receiver], self._ready[None]
        first, other = own.first_key, others.first_key
        is_own = first is not None and (other is None or first <= other)
        return (own if is_own else others).pop()

    def least_loaded(self, receiver: str) -> WorkerState | None:
        """Return the worker with room that owns the fewest shard readers, or None."""
        free = [worker for worker in self if worker.room > 0 and worker.serves(receiver)]
        return min(
            free, key=lambda w: (len(w.shard_readers), len(w.leases) * w.seconds), default=None
        )

    def put_back(self, worker: WorkerState) -> None:
        """Return a removed worker to the queue if it still has room."""
        if worker.room > 0:
            self._ready[worker.receiver].put(
                worker, ((len(worker.leases) + 1) * worker.seconds, -worker.room)
            )

    def record_seen(self, worker: WorkerState, now: float) -> None:
        """Record a sign of life from a worker."""
        worker.last_seen = now
        if worker.silent:
            worker.silent = False
            self.offer(worker)

    def poll(self, now: float) -> list[WorkerState]:
        """Update which workers are slow or silent; return those that have just become silent."""
        paces = [worker.seconds for worker in self if worker.seconds]
        usual = statistics.median_low(paces) if paces else 0.0
        newly_silent = []
        for worker in self:
            worker.slow = worker.seconds > SLOW_FACTOR * usual > 0
            if now - worker.last_seen > SILENCE and not worker.silent:
                worker.silent = True
                newly_silent.append(worker)
        return newly_silent
