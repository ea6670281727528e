"""Lease assigner: choose which worker is leased which batch. Pure.

Late batches are leased speculatively to a second worker.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from launcher.data.dispatcher.epoch_reads import EpochRead
from launcher.data.dispatcher.shard_affinity import ShardAffinity
from launcher.data.dispatcher.worker_pool import Lease, PriorityQueue, WorkerPool, WorkerState

#: A batch is late after this many times the usual seconds, but not before LATE_AFTER seconds.
LATE_FACTOR = 4.0
LATE_AFTER = 0.25
#: LATE_AFTER for the first batch of an epoch read: workers may have to build the dataset.
FIRST_LATE_AFTER = 3.0
#: Batches ahead of a rank that are checked for being late.
LOOKAHEAD = 8
#: Leases that a worker has probably started: one is sent, one waits to be sent, one is prepared.
LIKELY_STARTED = 3


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """Batches of one epoch read assigned to one worker."""

    worker: str
    run: str
    steps: tuple[int, ...]


class LeaseAssigner:
    """Matches the batches that epoch reads want with the workers that have room."""

    def __init__(
        self, pool: WorkerPool, affinity: ShardAffinity, runs: Mapping[str, EpochRead]
    ) -> None:
        self._pool = pool
        self._affinity = affinity
        self._runs = runs
        self._wanting: PriorityQueue[EpochRead] = PriorityQueue()
        # Collected here because dozens of messages about each arrive between two assignments.
        self._offering: dict[WorkerState, None] = {}
        self._changed: dict[EpochRead, None] = {}
        self._turns = itertools.count(1)
        self._late: dict[Lease, None] = {}  # to be leased again, in this order
        self._revoked: list[Assignment] = []
        self._paused: set[str] = set()  # receivers that are silent
        #: Number of leases of late batches that another worker already held.
        self.speculative_leases = 0

    def give_back(self, worker: WorkerState, leases: Iterable[Lease]) -> None:
        """Make the leases available to other workers."""
        # They also stay with the worker, which may still be preparing them.
        for run_id, step in leases:
            if run := self._runs.get(run_id):
                run.give_back(step, worker.name)
                self.want(run)
        self._want_shard_readers(worker)

    def shrink(self, run: EpochRead) -> None:
        """Revoke the leases that no longer fit an epoch read's window after it has shrunk."""
        beyond = set(run.beyond_window())
        for name in {name for step in beyond for name in run.holders[step]}:
            if (worker := self._pool.get(name)) is None:
                continue
            waiting = itertools.islice(worker.leases, LIKELY_STARTED, None)
            steps = [step for of, step in waiting if of == run.name and step in beyond]
            for step in steps:
                del worker.leases[run.name, step]
                run.give_back(step, name)
            if steps:
                self._revoked.append(Assignment(worker=name, run=run.name, steps=tuple(steps)))
                self.offer(worker)
        if run.follower is not None:  # it gets the window that this one leaves
            self.shrink(run.follower)

    def pop_revoked(self) -> list[Assignment]:
        """Return the leases revoked since the last call.

        Their workers may already have started on them.
        """
        revoked, self._revoked = self._revoked, []
        return revoked

    def offer(self, worker: WorkerState) -> None:
        """Mark a worker as possibly having room for more leases."""
        self._offering[worker] = None

    def want(self, run: EpochRead) -> None:
        """Mark an epoch read as possibly wanting other batches than before."""
        self._changed[run] = None

    def _want_shard_readers(self, worker: WorkerState) -> None:
        """Mark the shard reads that this worker owns as wanting batches.

        They wait for their owner alone, or for any other worker once it has gone.
        """
        for name in worker.shard_readers:
            if run := self._runs.get(name):
                self.want(run)

    def pause(self, receiver: str) -> None:
        """Lease nothing for a receiver that is silent.

        What is sent to it meanwhile is not reported as arrived, and would be prepared again and
        again.
        """
        self._paused.add(receiver)
        for run in self._runs.values():
            if run.receiver == receiver:
                self._wanting.drop(run)

    def resume(self, receiver: str) -> None:
        """Lease for a receiver that was paused."""
        if receiver in self._paused:
            self._paused.discard(receiver)
            for run in self._runs.values():
                self.want(run)

    def drop(self, run: EpochRead) -> None:
        """Remove an epoch read from the queue; it wants nothing any more."""
        self._wanting.drop(run)

    def poll(self, now: float) -> None:
        """Queue the batches that are late to be leased a second time."""
        for run in self._runs.values():
            if run.receiver in self._paused:
                continue
            for step in run.awaited(LOOKAHEAD):
                if self._is_late(run, step, now):
                    self._late[run.name, step] = None

    def _is_late(self, run: EpochRead, step: int, now: float) -> bool:
        """Return True if every holder of a batch takes too long.

        Each further holder doubles the time allowed.
        """
        holders = [w for name in run.holders[step] if (w := self._pool.get(name))]
        usual = (
            max(LATE_AFTER, LATE_FACTOR * run.usual_seconds)
            if run.usual_seconds
            else FIRST_LATE_AFTER
        )
        if run.is_shard_reader:  # another worker would take as long to reach it
            usual += step * run.usual_seconds
        patience = usual * 2 ** (len(holders) - 1)
        return all(now - holder.started_at((run.name, step)) > patience for holder in holders)

    def assign(self, now: float) -> list[Assignment]:
        """Lease late batches a second time, then whatever else can be leased."""
        self._requeue_marked()
        grants: dict[tuple[str, str], list[int]] = {}
        for run_id, step in list(self._late):
            self._lease_again(run_id, step, now, grants)
        unserved = []
        while self._pool.has_ready and (run := self._wanting.pop()) is not None:
            worker = self._affinity.worker_for(run)
            if worker is None:
                if run.owner is None:  # workers with room serve another receiver
                    unserved.append(run)
                continue  # a shard reader waits until its owner has room
            self._lease_block(worker, run, now, grants)
            self._pool.put_back(worker)
            self._enqueue(run)
        for run in unserved:
            self._enqueue(run)
        return [
            Assignment(worker=worker, run=run, steps=tuple(steps))
            for (worker, run), steps in grants.items()
        ]

    def _requeue_marked(self) -> None:
        """Requeue the workers and epoch reads marked since the last call."""
        offering, self._offering = self._offering, {}
        for worker in offering:
            if self._pool.get(worker.name) is worker and worker.wants_leases:
                self._pool.put_back(worker)
                self._want_shard_readers(worker)
        changed, self._changed = self._changed, {}
        for run in changed:
            if self._runs.get(run.name) is run:
                self._enqueue(run)

    def _lease_again(
        self, run_id: str, step: int, now: float, grants: dict[tuple[str, str], list[int]]
    ) -> None:
        run = self._runs.get(run_id)
        holders = run.holders.get(step) if run else None
        if run is not None and run.receiver in self._paused:
            return
        if run is not None and holders is not None:  # still outstanding
            worker = self._affinity.another_for(run, holders)
            if worker is None:
                return  # retry when a worker has room
            self._lease(worker, run, step, now, grants)
            self.speculative_leases += 1
            self._pool.put_back(worker)
        del self._late[run_id, step]

    def _lease_block(
        self,
        worker: WorkerState,
        run: EpochRead,
        now: float,
        grants: dict[tuple[str, str], list[int]],
    ) -> None:
        for step in itertools.islice(run.next_steps(), worker.block):
            self._lease(worker, run, step, now, grants)

    def _lease(
        self,
        worker: WorkerState,
        run: EpochRead,
        step: int,
        now: float,
        grants: dict[tuple[str, str], list[int]],
    ) -> None:
        worker.leases[run.name, step] = now
        run.lease(step, worker.name)
        run.turn = next(self._turns)
        self._affinity.own(worker, run)
        grants.setdefault((worker.name, run.name), []).append(step)

    def _enqueue(self, run: EpochRead) -> None:
        """Queue an epoch read by the batch it wants next.

        Reads that a rank is consuming come before those that follow them.
        """
        if run.receiver in self._paused:
            self._wanting.drop(run)
            return
        if (step := run.next_step()) is not None:
            self._wanting.put(run, (run.after is not None, step - run.head, run.turn))
            return
        self._wanting.drop(run)
        if run.follower is not None:  # it may use the window that this one does not
            self._enqueue(run.follower)
