"""Epoch reads that are open now: opened, held back, refused, failed and closed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from launcher.data.control import messages as m
from launcher.data.dispatcher.dataset_lengths import DatasetLengths
from launcher.data.dispatcher.determinism_check import DeterminismCheck
from launcher.data.dispatcher.epoch_reads import ReadProgress, ReadSpec
from launcher.data.dispatcher.lease_scheduler import LeaseScheduler
from launcher.data.dispatcher.peer import Peer, Peers
from launcher.data.dispatcher.rank_consistency import (
    CONFIRM_TIMEOUT,
    HeldBackRead,
    HeldBackReads,
    RankConsistency,
    StreamReader,
)
from launcher.data.order import MOST_STATES, BatchPlan, ShardReaderPlan
from launcher.errors import DataError, WireError
from launcher.runtime import emit
from launcher.shared import MAX_WINDOW


class OpenReads:
    """The open epoch reads by id, each with its plan and the receiver that opened it.

    A read that conflicts with open ones waits until they close or are confirmed. now: clock.
    """

    def __init__(
        self,
        scheduler: LeaseScheduler,
        dataset_lengths: DatasetLengths,
        verifier: DeterminismCheck,
        workers: Peers,
        receivers: Peers,
        now: Callable[[], float],
    ) -> None:
        self._scheduler = scheduler
        self._dataset_lengths = dataset_lengths
        self._verifier = verifier
        self._workers = workers
        self._receivers = receivers
        self._now = now
        self._consistency = RankConsistency()
        self._held_back = HeldBackReads()
        self._plans: dict[str, dict[str, Any]] = {}
        self._receiver_names: dict[str, str] = {}
        self._states: dict[str, deque[dict[str, Any]]] = {}  # the latest of each shard's dataset
        self._state_holders: dict[str, str] = {}  # the worker that has these states

    def __contains__(self, run: str) -> bool:
        return run in self._plans

    def plan(self, run: str) -> BatchPlan | ShardReaderPlan:
        """Return the plan of an open read."""
        return m.decode_plan(self._plans[run])

    def receiver_of(self, run: str) -> str:
        """Return the name of the receiver that opened a read, "" if the read is not open."""
        return self._receiver_names.get(run, "")

    def definition(self, run: str, address: tuple[str, int], worker: str) -> m.DefineRun:
        """Return the message that defines a read for a worker; address: that of its receiver."""
        states = [*self._states.get(run, ())]
        if states:
            self._state_holders[run] = worker
        return m.DefineRun(run=run, plan=self._plans[run], address=address, states=states)

    def has_states(self, run: str, worker: str) -> bool:
        """Return whether a worker has all states of a shard's dataset that are kept."""
        return self._state_holders.get(run, worker) == worker

    def keep_state(self, saved: m.ShardState, worker: str) -> None:
        """Keep a state of a shard's dataset for the next worker that the shard is leased to."""
        if saved.run in self:
            self._states.setdefault(saved.run, deque(maxlen=MOST_STATES)).append(saved.state)
            self._state_holders[saved.run] = worker

    def open(self, peer: Peer, opened: m.OpenRun) -> None:
        """Open a read, hold it back for a conflict, or refuse it; raises WireError."""
        try:
            plan = m.decode_plan(opened.plan)
            self._dataset_lengths.check(plan.spec.dataset)
        except DataError as error:
            self._refuse(peer, opened.run, str(error))
            return
        reader = StreamReader(
            rank=opened.rank, receiver=peer.name, plan=plan, reading=opened.reading
        )
        if objections := self._consistency.objections(reader):
            self._hold_back(peer, opened, objections)
            return
        if why := self._consistency.start_mismatch(reader):
            emit("ranks_begin_apart", stream=plan.spec.name, why=why)
        self._consistency.open(opened.run, reader)
        self._plans[opened.run] = opened.plan
        self._receiver_names[opened.run] = peer.name
        spec = ReadSpec(
            name=opened.run,
            receiver=peer.name,
            rank=opened.rank,
            steps=plan.steps,
            is_shard_reader=isinstance(plan, ShardReaderPlan),
            after=opened.after,
        )
        self._scheduler.open_run(spec, self._now(), progress := _progress(opened, plan.steps))
        self._open_comparisons(opened.run, plan, progress)

    def _open_comparisons(self, run: str, plan: object, progress: ReadProgress) -> None:
        """Keep the last step back until the others are compared, unless some were not seen here."""
        known = [*range(progress.head), *progress.early, *progress.arrived]
        if not known and self._verifier.open(run, plan):
            self._scheduler.keep_last(run)
        for step in known:
            if self._verifier.record_arrival(run, step):
                self._scheduler.release_last(run)

    def confirm(self, run: str) -> None:
        """Refuse the held-back reads that conflict with a read confirmed to be open."""
        for held, why in self._held_back.pop_confirmed(run):
            self._refuse(held.peer, held.opened.run, why)

    def poll(self) -> None:
        """Open the held-back reads whose conflicts have ended."""
        for held in self._held_back:
            self._poll_held_back(held)

    def fail(self, failed: m.RunFailed) -> None:
        """Notify the rank that its epoch read cannot continue, and forget the read."""
        self._receivers.send(self._receiver_names.get(failed.run, ""), failed)
        self.close(failed.run)

    def close(self, run: str) -> None:
        """Close a read, and notify the workers that know it."""
        self._consistency.close(run)
        self._held_back.end(run)
        self._close_comparisons(run)
        self._scheduler.close_run(run)
        self._plans.pop(run, None)
        self._states.pop(run, None)
        self._state_holders.pop(run, None)
        self._receiver_names.pop(run, None)
        for worker in self._workers.values():
            if run in worker.known_runs:
                worker.known_runs.discard(run)
                worker.send(m.CloseRun(run=run))

    def _close_comparisons(self, run: str) -> None:
        counts = self._verifier.counts(run) if self._scheduler.has_consumed(run) else None
        if counts is not None and (plan := self.plan(run)).spec.verify is not None:
            emit(
                "batches_compared",
                stream=plan.spec.name,
                epoch=plan.epoch,
                compared=counts[0],
                of=counts[1],
            )
        self._verifier.close(run)

    def disconnect(self, receiver: str) -> None:
        """Stop comparing other reads with those of a receiver that is gone or registers again."""
        self._consistency.forget(receiver)

    def _refuse(self, peer: Peer, run: str, why: str) -> None:
        peer.send(m.RunFailed(run=run, kind="refused", message=why))

    def _hold_back(self, peer: Peer, opened: m.OpenRun, objections: dict[str, str]) -> None:
        """Hold back a conflicting read until the reads it conflicts with close or are confirmed."""
        self._held_back.begin(
            HeldBackRead(peer=peer, opened=opened, objections=objections, since=self._now())
        )
        for other in objections:
            self._receivers.send(self._receiver_names[other], m.Confirm(run=other))

    def _poll_held_back(self, held: HeldBackRead) -> None:
        open_still = [run for run in held.objections if run in self._consistency]
        if self._receivers.get(held.peer.name) is not held.peer:
            self._held_back.end(held.opened.run)  # reopened when its host reconnects
        elif not open_still or self._now() - held.since > CONFIRM_TIMEOUT:
            for run in open_still:
                self._consistency.close(run)
            self._held_back.end(held.opened.run)
            self.open(held.peer, held.opened)


def _progress(opened: m.OpenRun, steps: int) -> ReadProgress:
    """Return the progress of an epoch read; raises WireError if it is impossible."""
    consumed = opened.taken + len(opened.early)
    beyond = [*opened.early, *(step for step, _ in opened.arrived)]
    possible = range(opened.taken, min(steps, consumed + MAX_WINDOW))
    if not 0 <= opened.taken <= steps or not all(step in possible for step in beyond):
        raise WireError(f"impossible progress of run {opened.run}: {opened.taken} of {steps} steps")
    return ReadProgress(
        head=opened.taken,
        early=opened.early,
        arrived=dict(opened.arrived),
        largest=opened.largest,
    )
