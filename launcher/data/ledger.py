"""Who prepares which batch: the dispatcher's bookkeeping. Pure: no I/O, and time is passed in.

A batch is leased to a worker that has room, and done when a receiver holds it. Leases of a worker
that died come back; those of a worker that is silent or late are leased again, to another, which
is harmless because a batch always means the same bytes and the receiver keeps the first copy.

How far a run is ahead of its rank is bounded in bytes: by its share of the train host's prefetch
budget over the largest batch seen so far.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass, field

#: Batches ahead of a rank before the size of one is known.
FIRST_WINDOW = 2
#: Batches ahead of a rank at most, however small they are.
LAST_WINDOW = 256
#: Seconds of work that a worker should have in hand.
WORK_IN_HAND = 0.1
#: Batches that one worker holds leases for, at most.
DEEPEST = 64
#: Seconds without a sign of life after which a worker's leases are given to others too.
SILENCE = 3.0
#: Workers that die over one batch before its run is given up.
MOST_DEATHS = 3
#: A lease is late after this many times the worker's usual seconds, and at least LATE_AFTER.
LATE_FACTOR = 4.0
LATE_AFTER = 3.0


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Batches of one run for one worker."""

    worker: str
    run: str
    steps: tuple[int, ...]


@dataclass
class _Worker:
    host: str
    last_seen: float
    seconds: float | None = None  # a moving average for one batch
    leases: dict[tuple[str, int], float] = field(default_factory=dict)  # since when

    @property
    def depth(self) -> int:
        """Leases that keep this worker busy for WORK_IN_HAND seconds, and one more."""
        if not self.seconds:
            return 2
        return min(DEEPEST, max(2, math.ceil(WORK_IN_HAND / self.seconds) + 1))

    @property
    def room(self) -> int:
        return self.depth - len(self.leases)

    def learn(self, seconds: float) -> None:
        self.seconds = seconds if self.seconds is None else 0.8 * self.seconds + 0.2 * seconds

    def is_late(self, since: float, now: float) -> bool:
        # A lease may wait behind the others that this worker holds.
        patience = LATE_FACTOR * (self.seconds or 0.0) * self.depth
        return now - since > max(LATE_AFTER, patience)


@dataclass
class _Run:
    receiver: str
    rank: int
    steps: int
    budget: int
    next_step: int = 0
    taken: int = 0
    largest: int = 0
    returned: list[int] = field(default_factory=list)  # a heap of steps to lease anew
    holders: dict[int, set[str]] = field(default_factory=dict)  # leased, not arrived
    arrived: dict[int, str] = field(default_factory=dict)  # not taken: which host prepared it
    deaths: Counter[int] = field(default_factory=Counter)  # of workers at work on a step

    @property
    def window(self) -> int:
        if self.largest == 0:
            return FIRST_WINDOW
        return max(1, min(LAST_WINDOW, self.budget // self.largest))

    def next_lease(self) -> int | None:
        """The step to lease next: one that came back, or a new one inside the window."""
        if self.returned:
            return self.returned[0]
        if self.next_step < min(self.steps, self.taken + self.window):
            return self.next_step
        return None

    def pop_lease(self) -> int:
        if self.returned:
            return heapq.heappop(self.returned)
        self.next_step += 1
        return self.next_step - 1


class Ledger:
    """Workers, runs and leases. budget: bytes that a receiver holds ahead of its ranks."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._workers: dict[str, _Worker] = {}
        self._runs: dict[str, _Run] = {}
        #: Batches that ranks have taken, by the host that prepared them, and by rank.
        self.prepared: Counter[str] = Counter()
        self.received: Counter[int] = Counter()
        #: Leases of batches whose holders were late or silent.
        self.late_leases = 0

    # Workers ------------------------------------------------------------------------------

    @property
    def workers(self) -> tuple[str, ...]:
        return tuple(self._workers)

    def add_worker(self, worker: str, host: str, now: float) -> None:
        self._workers[worker] = _Worker(host, now)

    def remove_worker(self, worker: str) -> list[tuple[str, int]]:
        """Forget a worker; returns the leases it held, which go to others."""
        gone = self._workers.pop(worker)
        for run, step in gone.leases:
            self._give_back(run, step, worker)
        if gone.leases:
            # The first lease is what it was at work on; the others only waited behind it.
            run, step = min(gone.leases, key=gone.leases.__getitem__)
            self._runs[run].deaths[step] += 1
        return sorted(gone.leases)

    def poisoned(self) -> list[tuple[str, int]]:
        """Batches that workers died of, again and again."""
        return [
            (run_id, step)
            for run_id, run in self._runs.items()
            for step, deaths in run.deaths.items()
            if deaths >= MOST_DEATHS
        ]

    @property
    def signs_of_life(self) -> list[float]:
        """When each worker was heard of last."""
        return [worker.last_seen for worker in self._workers.values()]

    def seen(self, worker: str, now: float) -> None:
        self._workers[worker].last_seen = now

    def _give_back(self, run_id: str, step: int, worker: str) -> None:
        run = self._runs.get(run_id)
        holders = run.holders.get(step) if run else None
        if run is None or holders is None:
            return
        holders.discard(worker)
        if not holders:
            del run.holders[step]
            heapq.heappush(run.returned, step)

    def leases_by_host(self) -> Counter[str]:
        """Batches in the hands of each host's workers."""
        leases: Counter[str] = Counter()
        for worker in self._workers.values():
            leases[worker.host] += len(worker.leases)
        return leases

    # Runs ---------------------------------------------------------------------------------

    def open_run(self, run: str, *, receiver: str, rank: int, steps: int) -> None:
        self._runs[run] = _Run(receiver=receiver, rank=rank, steps=steps, budget=self._budget)
        self._share_budget(receiver)

    def close_run(self, run_id: str) -> None:
        run = self._runs.pop(run_id, None)
        if run is None:
            return
        for step, holders in run.holders.items():
            for worker in holders:
                self._workers[worker].leases.pop((run_id, step), None)
        self._share_budget(run.receiver)

    def runs_of(self, receiver: str) -> list[str]:
        return [run_id for run_id, run in self._runs.items() if run.receiver == receiver]

    @property
    def runs(self) -> tuple[str, ...]:
        return tuple(self._runs)

    def _share_budget(self, receiver: str) -> None:
        sharing = [run for run in self._runs.values() if run.receiver == receiver]
        for run in sharing:
            run.budget = self._budget // len(sharing)

    # Batches ------------------------------------------------------------------------------

    def sent(self, worker: str, run: str, step: int, seconds: float) -> None:
        """A worker has finished with a batch; it is done only when it has arrived."""
        self._workers[worker].learn(seconds)

    def arrived(self, run_id: str, step: int, worker: str, host: str, size: int) -> None:
        """A receiver holds the first copy of a batch."""
        run = self._runs.get(run_id)
        if run is None:
            return
        run.largest = max(run.largest, size)
        run.arrived[step] = host
        if step in run.returned:
            run.returned.remove(step)
            heapq.heapify(run.returned)
        for holder in run.holders.pop(step, set()):
            self._workers[holder].leases.pop((run_id, step), None)

    def damaged(self, run_id: str, worker: str) -> None:
        """A worker's connection was closed: what it has sent of a run may not arrive."""
        leases = self._workers[worker].leases if worker in self._workers else {}
        for run, step in [lease for lease in leases if lease[0] == run_id]:
            del leases[run, step]
            self._give_back(run, step, worker)

    def taken(self, run_id: str, step: int) -> None:
        """A rank has taken a batch."""
        run = self._runs.get(run_id)
        if run is None or step not in run.arrived:
            return
        run.taken = max(run.taken, step + 1)
        self.prepared[run.arrived.pop(step)] += 1
        self.received[run.rank] += 1

    # Leases -------------------------------------------------------------------------------

    def assign(self, now: float) -> list[Assignment]:
        """Lease what can be leased; then what is late, a second time."""
        grants: dict[tuple[str, str], list[int]] = {}
        while (pair := self._next_pair(now)) is not None:
            worker, run_id = pair
            self._lease(worker, run_id, self._runs[run_id].pop_lease(), now, grants)
        for run_id, step in self._late(now):
            if (helper := self._roomiest(now, other_than=self._runs[run_id].holders[step])) is None:
                continue
            self._lease(helper, run_id, step, now, grants)
            self.late_leases += 1
        return [
            Assignment(worker=worker, run=run, steps=tuple(steps))
            for (worker, run), steps in grants.items()
        ]

    def _next_pair(self, now: float) -> tuple[str, str] | None:
        worker = self._roomiest(now)
        run_id = self._neediest() if worker is not None else None
        return (worker, run_id) if worker is not None and run_id is not None else None

    def _lease(
        self,
        worker: str,
        run_id: str,
        step: int,
        now: float,
        grants: dict[tuple[str, str], list[int]],
    ) -> None:
        self._workers[worker].leases[run_id, step] = now
        self._runs[run_id].holders.setdefault(step, set()).add(worker)
        grants.setdefault((worker, run_id), []).append(step)

    def _neediest(self) -> str | None:
        """The run whose next batch its rank will want soonest."""
        waiting = {
            run_id: step - run.taken
            for run_id, run in self._runs.items()
            if (step := run.next_lease()) is not None
        }
        return min(waiting, key=waiting.__getitem__) if waiting else None

    def _roomiest(self, now: float, other_than: set[str] | None = None) -> str | None:
        """The worker that will come to a new batch soonest."""
        free = {
            name: len(worker.leases) * (worker.seconds or 0.0) - worker.room * 1e-9
            for name, worker in self._workers.items()
            if worker.room > 0
            and now - worker.last_seen <= SILENCE
            and name not in (other_than or ())
        }
        return min(free, key=free.__getitem__) if free else None

    def _late(self, now: float) -> list[tuple[str, int]]:
        """Batches all of whose holders are late or silent, the most wanted first."""
        late: dict[tuple[str, int], int] = {}
        for worker in self._workers.values():
            silent = now - worker.last_seen > SILENCE
            for (run_id, step), since in worker.leases.items():
                if silent or worker.is_late(since, now):
                    late[run_id, step] = late.get((run_id, step), 0) + 1
        wanted = sorted(
            (step - self._runs[run_id].taken, run_id, step)
            for (run_id, step), holders in late.items()
            if holders == len(self._runs[run_id].holders[step])
        )
        return [(run_id, step) for _, run_id, step in wanted]
