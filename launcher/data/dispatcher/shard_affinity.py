"""Shard affinity: keep each shard reader on the worker that has its iterator. Pure.

A shard of an iterable dataset can only be read from its start, so its batches go to one worker, in
order, as long as that worker can prepare them. Another worker would have to read the shard up to
that point again, or from a saved state of the dataset.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from launcher.data.dispatcher.epoch_reads import EpochRead
from launcher.data.dispatcher.worker_pool import WorkerPool, WorkerState

#: A shard reader that has leased no more batches than this may move to a worker that joined late.
MOVABLE_LEASES = 8


class ShardAffinity:
    """The workers that own shard readers; other epoch reads have no owner."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool

    def worker_for(self, run: EpochRead) -> WorkerState | None:
        """Return the worker for a read's next batches; None if no eligible one has room."""
        if not run.is_shard_reader:
            return self._pool.pop_soonest(run.receiver)
        if (owner := self._owner(run)) is None:
            return self._pool.least_loaded(run.receiver)
        return owner if owner.room > 0 else None

    def another_for(self, run: EpochRead, holders: Collection[str]) -> WorkerState | None:
        """Return a further worker for a late batch, or None.

        For a shard reader, that is a worker which has already started to read the shard again.
        """
        owner = self._owner(run)
        if owner is None or owner.name in holders:
            return self._pool.pop_soonest(run.receiver, without=holders)
        return owner if owner.room > 0 else None

    def own(self, worker: WorkerState, run: EpochRead) -> None:
        """Make a worker the owner of a shard reader."""
        if run.is_shard_reader and run.owner != worker.name:
            self.disown(run)
            run.owner = worker.name
            worker.shard_readers.add(run.name)

    def restore(self, worker: WorkerState, runs: Iterable[EpochRead]) -> None:
        """Restore the shard readers of a reconnected worker, which has kept its iterators."""
        worker.shard_readers.update(run.name for run in runs if run.owner == worker.name)

    def disown(self, run: EpochRead) -> None:
        """Remove the owner of a shard reader."""
        if owner := self._pool.get(run.owner or ""):
            owner.shard_readers.discard(run.name)
        run.owner = None

    def rebalance_to(self, newcomer: WorkerState, runs: Iterable[EpochRead]) -> list[EpochRead]:
        """Give a newly connected worker its share of the shard readers that have hardly begun.

        Returns the reads that it was given.
        """
        given = []
        for run in runs:
            owner = (
                self._owner(run)
                if run.is_shard_reader and run.next_unleased <= MOVABLE_LEASES
                else None
            )
            loaded = (
                owner is not None and len(owner.shard_readers) > len(newcomer.shard_readers) + 1
            )
            if loaded and newcomer.serves(run.receiver):
                self.own(newcomer, run)
                given.append(run)
        return given

    def _owner(self, run: EpochRead) -> WorkerState | None:
        """Return the worker that has the iterator, or None if it cannot continue."""
        owner = self._pool.get(run.owner or "")
        if owner is None or owner.silent or owner.leaving:
            self.disown(run)
            return None
        return owner
