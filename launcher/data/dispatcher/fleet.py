"""The workers: what each holds, how fast it is, and who comes to a new batch soonest. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from launcher.data.dispatcher.ranking import Ranking

#: Seconds of work that a worker should have in hand.
WORK_IN_HAND = 0.1
#: Seconds of work that are leased in one go: more would make a rank wait for one worker.
BLOCK_SECONDS = 0.01
#: Batches that one worker holds leases for, at most.
DEEPEST = 64
#: Seconds without a sign of life after which a worker's leases go to others. Workers beat once a
#: second: two beats are missing, and a little.
SILENCE = 2.5
#: A worker that needs this many times the usual seconds gets one lease at a time.
SLOW_FACTOR = 4.0

#: A step of a run.
Lease = tuple[str, int]


@dataclass(kw_only=True, eq=False)
class Worker:
    """One worker. seconds: that a batch takes it, by its own account; 0 before the first.

    receiver: the only one that it serves, for a worker on a train host.
    """

    name: str
    last_seen: float
    seconds: float = 0.0
    leases: dict[Lease, float] = field(default_factory=dict)  # since when
    sent: set[Lease] = field(default_factory=set)  # by its own account, and not arrived
    progress: float = 0.0  # when a batch of it arrived last
    silent: bool = False
    slow: bool = False
    leaving: bool = False
    receiver: str | None = None
    lanes: set[str] = field(default_factory=set)  # the runs that it owns

    def serves(self, receiver: str) -> bool:
        """Whether this worker can send to a receiver: a local one serves its own host's alone."""
        return self.receiver in (None, receiver)

    @property
    def depth(self) -> int:
        """Leases that keep it busy for WORK_IN_HAND seconds, and one more."""
        if self.slow:
            return 1
        if not self.seconds:
            return 2
        return min(DEEPEST, max(2, math.ceil(WORK_IN_HAND / self.seconds) + 1))

    @property
    def room(self) -> int:
        return 0 if self.silent or self.leaving else self.depth - len(self.leases)

    @property
    def block(self) -> int:
        """Batches to lease in one go."""
        fast = int(BLOCK_SECONDS / self.seconds) if self.seconds else 1
        return max(1, min(self.room, fast))

    @property
    def is_hungry(self) -> bool:
        """Whether it should be leased more: at half its depth, so that leases go out in blocks."""
        return self.room > 0 and len(self.leases) <= self.depth // 2

    def finished(self, lease: Lease, now: float) -> float | None:
        """Seconds that an arrived batch has taken, or None when it was not this worker's."""
        since = self.leases.pop(lease, None)
        self.sent.discard(lease)
        before, self.progress = self.progress, now
        return None if since is None else now - max(since, before)

    def begun(self, lease: Lease) -> float:
        """When it can have begun with a batch, at the latest known: it works in order."""
        return max(self.leases[lease], self.progress)


class Fleet:
    """All workers by name, and those that should be leased more, the soonest first."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}
        self._hungry: Ranking[Worker] = Ranking()

    def __iter__(self) -> Iterator[Worker]:
        return iter(self._workers.values())

    def __len__(self) -> int:
        return len(self._workers)

    def get(self, name: str) -> Worker | None:
        return self._workers.get(name)

    def add(self, worker: Worker) -> None:
        self._workers[worker.name] = worker
        self.offer(worker)

    def remove(self, name: str) -> Worker | None:
        worker = self._workers.pop(name, None)
        if worker is not None:
            self._hungry.drop(worker)
        return worker

    def offer(self, worker: Worker) -> None:
        """Let a worker be leased more when it should be."""
        if worker.is_hungry:
            self.put_back(worker)

    @property
    def has_hungry(self) -> bool:
        return bool(self._hungry)

    def soonest(self, receiver: str, without: Collection[str] = ()) -> Worker | None:
        """Take out the worker that will come to a new batch soonest; `put_back` it after use."""
        passed = []
        while (worker := self._hungry.pop()) is not None:
            if worker.serves(receiver) and worker.name not in without and worker.room > 0:
                break
            passed.append(worker)
        for other in passed:
            self.put_back(other)
        return worker

    def least_laden(self, receiver: str) -> Worker | None:
        """The worker with room that owns the fewest lanes."""
        free = [worker for worker in self if worker.room > 0 and worker.serves(receiver)]
        return min(free, key=lambda w: (len(w.lanes), len(w.leases) * w.seconds), default=None)

    def put_back(self, worker: Worker) -> None:
        """Return a worker that was taken out, if it still has room."""
        if worker.room > 0:
            self._hungry.put(worker, ((len(worker.leases) + 1) * worker.seconds, -worker.room))

    def seen(self, worker: Worker, now: float) -> None:
        """A worker has given a sign of life."""
        worker.last_seen = now
        if worker.silent:
            worker.silent = False
            self.offer(worker)

    def look(self, now: float) -> list[Worker]:
        """Notice who is slow and who is silent; returns those that have just fallen silent."""
        paces = [worker.seconds for worker in self if worker.seconds]
        usual = statistics.median_low(paces) if paces else 0.0
        fallen = []
        for worker in self:
            worker.slow = worker.seconds > SLOW_FACTOR * usual > 0
            if now - worker.last_seen > SILENCE and not worker.silent:
                worker.silent = True
                fallen.append(worker)
        return fallen
