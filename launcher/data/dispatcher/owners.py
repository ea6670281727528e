"""Which worker goes on with which lane: the one that has its iterator. Pure.

A lane is a shard that can only be read from its start, so its batches go to one worker, in order,
as long as that can prepare them. Another worker reads the shard up to there again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from launcher.data.dispatcher.fleet import Fleet, Worker
from launcher.data.dispatcher.runs import Run

#: A lane that has come no further than this may go to a worker that has come late.
EARLY = 8


class Owners:
    """The owners of the lanes among the runs; other runs have none."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def worker_for(self, run: Run) -> Worker | None:
        """Who prepares the next batches of a run; None when nobody who can has room."""
        if not run.is_lane:
            return self._fleet.soonest(run.receiver)
        if (owner := self._owner(run)) is None:
            return self._fleet.least_laden(run.receiver)
        return owner if owner.room > 0 else None

    def another_for(self, run: Run, holders: Collection[str]) -> Worker | None:
        """Who prepares a late batch once more; of a lane, one who has begun to read it again."""
        owner = self._owner(run)
        if owner is None or owner.name in holders:
            return self._fleet.soonest(run.receiver, without=holders)
        return owner if owner.room > 0 else None

    def own(self, worker: Worker, run: Run) -> None:
        """A worker goes on with a lane."""
        if run.is_lane and run.owner != worker.name:
            self.disown(run)
            run.owner = worker.name
            worker.lanes.add(run.name)

    def welcome_back(self, worker: Worker, runs: Iterable[Run]) -> None:
        """A worker that lost its connection has kept its iterators."""
        worker.lanes.update(run.name for run in runs if run.owner == worker.name)

    def disown(self, run: Run) -> None:
        """Nobody goes on with a lane."""
        if owner := self._fleet.get(run.owner or ""):
            owner.lanes.discard(run.name)
        run.owner = None

    def share(self, newcomer: Worker, runs: Iterable[Run]) -> list[Run]:
        """Give a worker that has just come its share of the lanes that have hardly begun."""
        given = []
        for run in runs:
            owner = self._owner(run) if run.is_lane and run.fresh <= EARLY else None
            laden = owner is not None and len(owner.lanes) > len(newcomer.lanes) + 1
            if laden and newcomer.serves(run.receiver):
                self.own(newcomer, run)
                given.append(run)
        return given

    def _owner(self, run: Run) -> Worker | None:
        """The worker that has the iterator of a lane, if it can go on."""
        owner = self._fleet.get(run.owner or "")
        if owner is None or owner.silent or owner.leaving:
            self.disown(run)
            return None
        return owner
