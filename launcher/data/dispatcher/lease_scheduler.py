"""Lease scheduler: the state of workers, epoch reads and leases, as workers join, finish and die.

`LeaseAssigner` chooses who gets what. Pure: no I/O, and the time is passed in.

A batch is leased to a worker that has room, and is done when a receiver holds it. Leases of a
worker that died or fell silent go to others. A batch that a rank will want soon, and whose worker
takes far longer than usual, is leased to a second worker as well. All of that is harmless, because
a batch always means the same bytes and the receiver keeps the first copy.

No state exists only here: after a restart, the lease scheduler is rebuilt from what receivers
(`open_run`) and workers (`add_worker`) report.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping

from launcher.data.control import host_of, slot_of
from launcher.data.dispatcher.epoch_reads import (
    ConsumedCounts,
    EpochRead,
    ReadProgress,
    ReadSpec,
    ReceiverBudget,
)
from launcher.data.dispatcher.lease_assigner import Assignment, LeaseAssigner
from launcher.data.dispatcher.shard_affinity import ShardAffinity
from launcher.data.dispatcher.worker_pool import Lease, WorkerPool, WorkerState
from launcher.shared import window_for

#: Worker deaths on one batch, or per worker slot on one dataset, after which it is given up.
MAX_DEATHS = 3
#: Workers of one host that died within so many seconds of each other were lost with it: their
#: deaths on one batch, which two of them may prepare, count as one.
_TOGETHER = 0.3
#: Seconds a worker that lost its connection has to reconnect; after that it counts as dead.
WORKER_RECONNECT_TIMEOUT = 5.0


class LeaseScheduler:
    """Workers, epoch reads and leases.

    budget: bytes that a receiver may hold ahead of its ranks.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._pool = WorkerPool()
        self._affinity = ShardAffinity(self._pool)
        self._runs: dict[str, EpochRead] = {}
        self._budgets: dict[str, ReceiverBudget] = {}
        self._assigner = LeaseAssigner(self._pool, self._affinity, self._runs)
        self._unclaimed: dict[str, dict[tuple[int, str], None]] = {}  # for epoch reads not open yet
        self._poisoned: list[Lease] = []
        # Workers that may reconnect or have died: when they were lost, and the batches that they
        # had not sent, in the order in which they prepare them.
        self._missing: dict[str, tuple[float, list[Lease]]] = {}
        self._died: list[tuple[str, float]] = []
        self.counts: defaultdict[str, ConsumedCounts] = defaultdict(ConsumedCounts)

    # Workers ------------------------------------------------------------------------------

    def add_worker(
        self,
        name: str,
        now: float,
        *,
        seconds: float = 0.0,
        holds: Mapping[str, Collection[int]] | None = None,
        receiver: str | None = None,
    ) -> None:
        """Add a worker that has connected or reconnected.

        holds: the steps it is working on, by epoch read. receiver: the only receiver it serves.
        """
        if self._pool.get(name) is not None:
            self.remove_worker(name)
        self._missing.pop(name, None)  # it had only lost its connection
        for other in [other for other in self._missing if slot_of(other) == slot_of(name)]:
            self._record_death(other)  # this worker replaces it
        worker = WorkerState(
            name=name, last_seen=now, seconds=seconds, last_arrival_at=now, receiver=receiver
        )
        self._pool.add(worker)
        self._set_windows()
        self._affinity.restore(worker, self._runs.values())
        for run_id, steps in (holds or {}).items():
            for step in steps:
                self._claim(worker, run_id, step, now)
        for run in self._affinity.rebalance_to(worker, self._runs.values()):
            self._assigner.want(run)

    def _claim(self, worker: WorkerState, run_id: str, step: int, now: float) -> None:
        worker.leases[run_id, step] = now
        if (run := self._runs.get(run_id)) is None:
            self._unclaimed.setdefault(run_id, {})[step, worker.name] = None
        elif run.lease(step, worker.name):
            self._affinity.own(worker, run)

    def forget_claims(self, runs: Iterable[str]) -> None:
        """Forget the steps that workers hold of epoch reads that will not be opened."""
        for run in runs:
            self._unclaimed.pop(run, None)

    def remove_worker(self, name: str, *, lost_at: float | None = None) -> list[Lease]:
        """Remove a worker; return the leases it held, which go to others.

        lost_at: when its connection ended unannounced; the worker has died or will reconnect.
        """
        worker = self._pool.remove(name)
        if worker is None:
            return []
        if lost_at is not None:
            # A worker prepares its oldest lease first; the others were waiting.
            unsent = (lease for lease in worker.leases if lease not in worker.sent)
            self._missing[name] = (lost_at, sorted(unsent, key=worker.leases.__getitem__))
        self._assigner.give_back(worker, worker.leases)
        return sorted(worker.leases)

    def drain_worker(self, name: str, keeps: Mapping[str, Collection[int]]) -> None:
        """Let a leaving worker finish the steps it keeps, and lease the rest to others."""
        if worker := self._pool.get(name):
            worker.leaving = True
            kept = {(run, step) for run, steps in keeps.items() for step in steps}
            self._assigner.give_back(worker, worker.leases.keys() - kept)

    def _record_death(self, name: str) -> None:
        lost_at, unsent = self._missing.pop(name)
        self._died.append((name, lost_at))
        if not unsent:
            return
        run_id, step = unsent[0]
        if run := self._runs.get(run_id):
            deaths = run.deaths.setdefault(step, [])
            near = [one for one, when in deaths if abs(lost_at - when) < _TOGETHER]
            if any(host_of(name) == host_of(one) and slot_of(name) != slot_of(one) for one in near):
                return
            deaths.append((name, lost_at))
            if len(deaths) == MAX_DEATHS:
                self._poisoned.append((run_id, step))

    def pop_deaths(self) -> list[tuple[str, float]]:
        """Return the workers found dead since the last call, with the times they were lost."""
        died, self._died = self._died, []
        return died

    def pop_poisoned(self) -> list[Lease]:
        """Return the batches found to kill workers repeatedly since the last call."""
        found, self._poisoned = self._poisoned, []
        return found

    def record_heartbeat(
        self, name: str, now: float, *, seconds: float, done: Iterable[Lease]
    ) -> None:
        """Record a worker's heartbeat.

        done: batches that it has finished since its previous heartbeat.
        """
        worker = self._pool.get(name)
        if worker is None:
            return
        worker.seconds = seconds
        # A batch sent a heartbeat ago that has not arrived was lost in transit or is a second copy.
        lost, worker.sent = worker.sent, {lease for lease in done if lease in worker.leases}
        self._assigner.give_back(worker, lost)
        for lease in lost:
            worker.leases.pop(lease, None)
        self._pool.record_seen(worker, now)
        self._assigner.offer(worker)

    def record_seen(self, name: str, now: float) -> None:
        """Record a sign of life from a worker."""
        if worker := self._pool.get(name):
            self._pool.record_seen(worker, now)

    @property
    def signs_of_life(self) -> list[float]:
        """The time of the latest sign of life of each worker."""
        return [worker.last_seen for worker in self._pool]

    @property
    def living(self) -> list[str]:
        """The workers that give signs of life and do not leave."""
        return [each.name for each in self._pool if not (each.silent or each.leaving)]

    def pause(self, receiver: str) -> None:
        """Lease nothing for a receiver until `resume`."""
        self._assigner.pause(receiver)

    def resume(self, receiver: str) -> None:
        """Lease for a receiver that was paused."""
        self._assigner.resume(receiver)

    def leases_by_host(self) -> Counter[str]:
        """Return the number of leases held by each host's workers."""
        leases: Counter[str] = Counter()
        for worker in self._pool:
            leases[host_of(worker.name)] += len(worker.leases)
        return leases

    # Epoch reads --------------------------------------------------------------------------

    @property
    def runs(self) -> tuple[str, ...]:
        """The ids of the open epoch reads."""
        return tuple(self._runs)

    def runs_of(self, receiver: str) -> list[str]:
        """Return the ids of a receiver's open epoch reads."""
        return [name for name, run in self._runs.items() if run.receiver == receiver]

    def open_run(self, spec: ReadSpec, now: float, progress: ReadProgress | None = None) -> None:
        """Open an epoch read, or continue it after its receiver has reconnected."""
        name = spec.name
        run = self._runs.get(name)
        if run is None:
            budget = self._budgets.setdefault(spec.receiver, ReceiverBudget(self._budget))
            run = EpochRead(
                name=name,
                receiver=spec.receiver,
                rank=spec.rank,
                steps=spec.steps,
                receiver_budget=budget,
                last_consumed_at=now,
                is_shard_reader=spec.is_shard_reader,
            )
            before = self._runs.get(spec.after or "")
            self._runs[name] = run
            if before is not None and before.follower is None:
                run.after, run.largest, before.follower = before, before.largest, run
        if progress is not None:
            run.set_progress(progress)
        for step, holder in self._unclaimed.pop(name, ()):
            worker = self._pool.get(holder)
            if worker is not None and (name, step) in worker.leases:  # not finished yet
                self._claim(worker, name, step, now)
        self._divide_budget(run.receiver_budget)

    def keep_last(self, name: str) -> None:
        """Lease the last step of an epoch read only after `release_last`."""
        if name in self._runs:
            self._runs[name].keeps_last = True

    def release_last(self, name: str) -> None:
        """Lease the last step of an epoch read from now on."""
        run = self._runs.get(name)
        if run is not None and run.keeps_last:
            run.keeps_last = False
            self._assigner.want(run)

    def has_consumed(self, name: str) -> bool:
        """Return whether the rank has consumed a batch of an epoch read."""
        return name in self._runs and self._runs[name].consumed > 0

    def close_run(self, name: str) -> None:
        """Close an epoch read and release its leases."""
        run = self._runs.pop(name, None)
        if run is None:
            return
        for step, holders in run.holders.items():
            for holder in holders:
                if worker := self._pool.get(holder):
                    worker.leases.pop((name, step), None)
                    self._assigner.offer(worker)
        self._affinity.disown(run)
        self._assigner.drop(run)
        self._unlink(run)
        self._divide_budget(run.receiver_budget)

    def _unlink(self, run: EpochRead) -> None:
        if run.after is not None:
            run.after.follower = run.follower
        if (follower := run.follower) is not None:  # usually the one that is consumed now
            follower.after = run.after
            follower.active = follower.active or run.active
            follower.largest = max(follower.largest, run.largest)

    def _divide_budget(self, budget: ReceiverBudget) -> None:
        """Redistribute a receiver's memory among the epoch reads that are being consumed."""
        runs = [run for run in self._runs.values() if run.receiver_budget is budget]
        budget.readers = sum(run.active and run.after is None for run in runs)
        self._set_windows()
        for run in runs:
            self._assigner.want(run)

    def _set_windows(self) -> None:
        """Set each window by the number of workers: more workers need more batches to work on."""
        readers = sum(budget.readers for budget in self._budgets.values())
        for budget in self._budgets.values():
            budget.window = window_for(len(self._pool), readers)

    # Batches ------------------------------------------------------------------------------

    def record_arrival(self, run_id: str, step: int, worker: str, size: int, now: float) -> None:
        """Record that a receiver holds the first copy of a batch."""
        deliverer = self._pool.get(worker)
        seconds = deliverer.finished((run_id, step), now) if deliverer else None
        if deliverer:
            self._assigner.offer(deliverer)
        elif worker in self._missing and (run_id, step) in (unsent := self._missing[worker][1]):
            unsent.remove((run_id, step))  # its last one, which arrived after its connection ended
        run = self._runs.get(run_id)
        if run is None:
            return
        if deliverer and len(run.holders.get(step, ())) > 1:  # the first to deliver continues
            self._affinity.own(deliverer, run)
        grew = size > run.largest
        if run.arrive(step, worker, size) and seconds is not None:
            run.record_seconds(seconds)
        if grew:  # the window has changed
            self._assigner.want(run)
            self._assigner.shrink(run)

    def release_damaged(self, run_id: str, worker: str) -> None:
        """Release a worker's leases of an epoch read after its connection was closed.

        What the worker had already sent may not arrive.
        """
        if holder := self._pool.get(worker):
            lost = [lease for lease in holder.leases if lease[0] == run_id]
            self._assigner.give_back(holder, lost)
            for lease in lost:
                del holder.leases[lease]
            self._assigner.offer(holder)

    def record_consumed(self, run_id: str, step: int, now: float) -> None:
        """Record that a rank has consumed a batch."""
        run = self._runs.get(run_id)
        host = run.consume(step, now) if run else None
        if run is None or host is None:
            return
        counts = self.counts[run.receiver]
        counts.prepared[host] += 1
        counts.received[run.rank] += 1
        if run.active:
            self._assigner.want(run)
        else:
            run.active = True
            self._divide_budget(run.receiver_budget)

    def total(self) -> ConsumedCounts:
        """Return the counts of all receivers together."""
        return ConsumedCounts(
            prepared=sum((counts.prepared for counts in self.counts.values()), Counter()),
            received=sum((counts.received for counts in self.counts.values()), Counter()),
        )

    def idle(self, now: float, seconds: float) -> list[EpochRead]:
        """Return the epoch reads whose rank has left an arrived batch unconsumed for `seconds`."""
        # A rank that waits for one of its shard readers cannot consume from the others.
        waiting = {
            (run.receiver, run.rank)
            for run in self._runs.values()
            if run.is_shard_reader and run.head not in run.arrived
        }
        return [
            run
            for run in self._runs.values()
            if run.active and run.head in run.arrived and now - run.last_consumed_at > seconds
            if not (run.is_shard_reader and (run.receiver, run.rank) in waiting)
        ]

    def overdue(self, now: float, seconds: float) -> list[tuple[EpochRead, list[str]]]:
        """Return the epoch reads whose next batch has been leased for more than `seconds`.

        Each comes with the workers that hold the lease.
        """
        found = []
        for run in self._runs.values():
            holders = run.holders.get(run.head, set()) if run.after is None else set()
            workers = [worker for name in holders if (worker := self._pool.get(name))]
            since = [worker.leases.get((run.name, run.head), now) for worker in workers]
            if since and now - min(since) > seconds:
                found.append((run, sorted(holders)))
        return found

    # Leases -------------------------------------------------------------------------------

    def poll(self, now: float) -> dict[str, list[str]]:
        """Check for silent or dead workers and for late batches.

        The dispatcher calls this several times a second. Returns the workers that have just fallen
        silent, by host.
        """
        silent: dict[str, list[str]] = {}
        for worker in self._pool.poll(now):
            silent.setdefault(host_of(worker.name), []).append(worker.name)
            self._assigner.give_back(worker, worker.leases)
        for name, (since, _) in list(self._missing.items()):
            if now - since > WORKER_RECONNECT_TIMEOUT:
                self._record_death(name)
        self._assigner.poll(now)
        return silent

    def pop_revoked(self) -> list[Assignment]:
        """Return the leases revoked since the last call; send them before new leases."""
        return self._assigner.pop_revoked()

    def assign(self, now: float) -> list[Assignment]:
        """Lease late batches a second time, then whatever else can be leased."""
        return self._assigner.assign(now)

    @property
    def late_leases(self) -> int:
        """Number of leases of late batches that another worker already held."""
        return self._assigner.speculative_leases
