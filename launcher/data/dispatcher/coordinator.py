"""Coordinator of a job's data service: handles each message, runs the checks, sends the leases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from launcher.data.control import host_of
from launcher.data.control import messages as m
from launcher.data.dispatcher.dataset_lengths import DatasetLengths
from launcher.data.dispatcher.determinism_check import DeterminismCheck
from launcher.data.dispatcher.epoch_reads import ConsumedCounts
from launcher.data.dispatcher.health_monitor import (
    IDLE_AFTER,
    OVERDUE_AFTER,
    RECEIVER_SILENT_AFTER,
    HealthMonitor,
)
from launcher.data.dispatcher.lease_scheduler import LeaseScheduler
from launcher.data.dispatcher.open_reads import OpenReads
from launcher.data.dispatcher.peer import Peer, Peers
from launcher.data.dispatcher.worker_pool import SILENCE
from launcher.data.metrics import Metrics, Snapshot
from launcher.data.order import BatchContent, BatchPlan, describe_difference
from launcher.runtime import emit
from launcher.shared import DataPart

#: Seconds a receiver has to reconnect before its epoch reads are closed.
RECEIVER_RECONNECT_TIMEOUT = 90.0
#: Seconds after which a reconnected worker is notified which of its epoch reads are closed. By then
#: their receivers have reconnected as well.
FORGET_CLOSED_AFTER = 10.0


class Coordinator:
    """Passes what workers and receivers report to the scheduler, and its decisions to them.

    data_hosts: hosts that are expected to serve. local_hosts: train hosts whose workers serve only
    their own ranks. start_timeout: seconds to wait for the first worker. now: clock, in seconds.
    """

    def __init__(
        self,
        part: DataPart,
        *,
        data_hosts: tuple[str, ...],
        local_hosts: tuple[str, ...],
        start_timeout: float,
        now: Callable[[], float],
    ) -> None:
        self._data_hosts = data_hosts + local_hosts
        self._local_hosts = local_hosts
        self._now = now
        self._metrics = Metrics()
        self._scheduler = LeaseScheduler(part.prefetch_bytes)
        self._dataset_lengths = DatasetLengths(part.datasets)
        self._health = HealthMonitor(self._data_hosts, start_timeout, now())
        self._verifier = DeterminismCheck()
        self._differing: set[str] = set()  # datasets already logged as such
        self._workers = Peers()
        self._receivers = Peers()
        self._reads = OpenReads(
            self._scheduler,
            self._dataset_lengths,
            self._verifier,
            self._workers,
            self._receivers,
            now,
        )
        self._addresses: dict[str, tuple[str, int]] = {}
        self._reconnect_timers: dict[
            str, asyncio.TimerHandle
        ] = {}  # for receivers that may reconnect

    @property
    def has_receivers(self) -> bool:
        """True while any receiver is connected."""
        return bool(self._receivers)

    def snapshot(self) -> Snapshot:
        """Return the job's metrics so far."""
        return self._metrics.snapshot(self._scheduler.leases_by_host(), self._scheduler.late_leases)

    async def close(self) -> None:
        """Send Close to the workers and close their connections."""
        for worker in self._workers.values():
            worker.send(m.Close())
        await asyncio.gather(*(worker.close() for worker in self._workers.values()))

    # Periodic checks ----------------------------------------------------------------------

    def poll(self) -> None:
        """Check for silent workers, late batches and batches that kill workers.

        The dispatcher calls this several times a second.
        """
        self._check_poisoned()
        self._reads.poll()
        self._ask_for_second()  # again, where a worker was lost
        for run in self._verifier.poll():
            self._scheduler.release_last(run)
        for host, workers in self._scheduler.poll(self._now()).items():
            emit("workers_silent", data_host=host, workers=workers, seconds=SILENCE)
        self._record_deaths()

    def report(self) -> None:
        """Log how many batches each host has prepared and each rank has received."""
        total = self._scheduler.total()
        emit(
            "batches_served",
            by_host=dict.fromkeys(self._data_hosts, 0) | dict(sorted(total.prepared.items())),
            received={str(rank): n for rank, n in sorted(total.received.items())},
        )

    def heartbeat(self) -> None:
        """Send a heartbeat to every peer and run the health checks.

        The dispatcher calls this once a second.
        """
        for peer in (*self._workers.values(), *self._receivers.values()):
            peer.send(m.Alive())
        for rank, run in self._health.newly_idle(self._scheduler, self._now()):
            emit("rank_idle", rank=rank, run=run, seconds=IDLE_AFTER)
        for late, workers in self._health.newly_overdue(self._scheduler, self._now()):
            plan = self._reads.plan(late.name)
            batch = f"{plan.describe_batch(late.head)} of {plan.spec.dataset}"
            emit(
                "batch_overdue", rank=late.rank, batch=batch, workers=workers, seconds=OVERDUE_AFTER
            )
        for name, message in self._health.unreachable_receivers(self._now()):
            self._fail_runs(self._scheduler.runs_of(name), message)
        for name in self._health.newly_silent(self._now()):
            emit("receiver_silent", receiver=name, seconds=RECEIVER_SILENT_AFTER)
            self._scheduler.pause(name)
        for _, message in self._health.lost_receivers(self._now()):
            self._fail_runs(self._scheduler.runs, message)  # its ranks' peers wait for them
        are_building = bool(self._workers and self._dataset_lengths.asked)
        if reason := self._health.no_worker_error(
            self._scheduler, self._now(), are_building=are_building
        ):
            self._fail_runs(self._scheduler.runs, reason)
            self._fail_length_requests(reason, unavailable=True)

    def _record_deaths(self) -> None:
        for worker, moment in self._scheduler.pop_deaths():
            self._dataset_lengths.record_death(worker, moment)

    def _fail_length_requests(self, why: str, *, unavailable: bool = False) -> None:
        for asker, answer in self._dataset_lengths.give_up(why, unavailable=unavailable):
            self._receivers.send(asker, answer)

    def _check_poisoned(self) -> None:
        for run, step in self._scheduler.pop_poisoned():
            if run not in self._reads:
                continue
            plan = self._reads.plan(run)
            message = (
                f"data workers died repeatedly while they prepared a batch of {plan.spec.dataset}, "
                f"at or soon after {plan.describe_batch(step)}; the events worker_died in the data "
                "hosts' logs give the causes"
            )
            self._reads.fail(m.RunFailed(run=run, kind="dataset", message=message))

    def _fail_runs(self, runs: Iterable[str], message: str) -> None:
        for run in runs:
            self._reads.fail(m.RunFailed(run=run, kind="unavailable", message=message))

    # Connections --------------------------------------------------------------------------

    def receive(self, peer: Peer, messages: Sequence[m.Message]) -> None:
        """Handle messages from a peer; raises WireError for invalid ones."""
        self._metrics.count("messages", len(messages))
        for message in messages:
            self._receive(peer, message)
        if self._receivers.get(peer.name) is peer:
            reports = any(isinstance(message, m.Report) for message in messages)
            if self._health.record_receiver(peer.name, self._now(), reports=reports):
                emit("receiver_returned", receiver=peer.name)
                self._scheduler.resume(peer.name)

    def _receive(self, peer: Peer, message: m.Message) -> None:
        if isinstance(message, m.Report):
            self._metrics.record(message)
        elif self._workers.get(peer.name) is peer:
            self._receive_from_worker(peer, message)
        elif self._receivers.get(peer.name) is peer:
            self._receive_from_receiver(peer, message)
        elif isinstance(message, m.RegisterWorker):
            self._register_worker(peer, message)
        elif isinstance(message, m.RegisterReceiver):
            self._register_receiver(peer, message)

    def _register_worker(self, peer: Peer, registration: m.RegisterWorker) -> None:
        if before := self._workers.get(registration.worker):
            before.drop()
        peer.name, peer.pid = registration.worker, registration.pid
        self._workers[peer.name] = peer
        self._health.record_workers()
        host = host_of(peer.name)
        self._scheduler.add_worker(
            peer.name,
            self._now(),
            seconds=registration.seconds,
            holds=registration.holds,
            receiver=host if host in self._local_hosts else None,
        )
        emit("worker_joined", worker=peer.name, pid=peer.pid)
        self._record_deaths()
        self._dataset_lengths.record_reconnect(peer.name)
        if self._dataset_lengths.is_fatal_to(self._workers.keys(), self._now()):
            asked = " and ".join(question.dataset for question in self._dataset_lengths.asked)
            self._fail_length_requests(
                f"data workers died repeatedly while they built {asked}; the events worker_died in "
                "the data hosts' logs give the causes"
            )
        if registration.runs:
            loop = asyncio.get_running_loop()
            loop.call_later(FORGET_CLOSED_AFTER, self._forget_closed, peer, registration.runs)
        peer.send(*self._dataset_lengths.asked)

    def _register_receiver(self, peer: Peer, registration: m.RegisterReceiver) -> None:
        if before := self._receivers.get(registration.host):
            before.drop()
        peer.name = registration.host
        if waiting := self._reconnect_timers.pop(peer.name, None):
            waiting.cancel()
        self._receivers[peer.name] = peer
        self._addresses[peer.name] = (registration.address[0], registration.address[1])
        self._scheduler.counts[peer.name] = ConsumedCounts.from_message(
            registration.prepared, registration.received
        )
        self._reads.disconnect(peer.name)
        opened = [m.decode(raw) for raw in registration.runs]
        runs = [message for message in opened if isinstance(message, m.OpenRun)]
        for run in set(self._scheduler.runs_of(peer.name)) - {message.run for message in runs}:
            self._reads.close(run)
        for message in runs:
            if message.taken:
                self._health.record_workers()
            self._reads.open(peer, message)

    def disconnect(self, peer: Peer) -> None:
        """Clean up after a peer's connection has ended."""
        if self._workers.get(peer.name) is peer:
            del self._workers[peer.name]
            lost_at = None if peer.leaving else self._now()
            leases = self._scheduler.remove_worker(peer.name, lost_at=lost_at)
            self._metrics.forget_worker(peer.name)
            self._metrics.count("lost_leases", len(leases))
            emit("worker_left", worker=peer.name, pid=peer.pid, leases=[list(x) for x in leases])
        elif self._receivers.get(peer.name) is peer:
            del self._receivers[peer.name]
            self._health.forget_receiver(peer.name)
            self._scheduler.resume(peer.name)
            self._reads.disconnect(peer.name)
            loop = asyncio.get_running_loop()
            self._reconnect_timers[peer.name] = loop.call_later(
                RECEIVER_RECONNECT_TIMEOUT, self._close_runs, peer.name
            )

    def _forget_closed(self, worker: Peer, runs: list[str]) -> None:
        closed = [run for run in runs if run not in self._reads]
        self._scheduler.forget_claims(closed)
        worker.send(*(m.CloseRun(run=run) for run in closed))

    def _close_runs(self, receiver: str) -> None:
        """Close the epoch reads of a receiver that has not reconnected in time."""
        del self._reconnect_timers[receiver]
        for run in self._scheduler.runs_of(receiver):
            self._reads.close(run)

    # Messages from workers ----------------------------------------------------------------

    def _receive_from_worker(self, peer: Peer, message: m.Message) -> None:
        now = self._now()
        if isinstance(message, m.Heartbeat):
            done = [(run, step) for run, steps in message.done.items() for step in steps]
            self._scheduler.record_heartbeat(peer.name, now, seconds=message.seconds, done=done)
            return
        self._scheduler.record_seen(peer.name, now)
        if isinstance(message, m.Length):
            if message.error:
                message = replace(message, error=_with_host(message.error, host_of(peer.name)))
            for asker in self._dataset_lengths.answer(message):
                self._receivers.send(asker, message)
        elif isinstance(message, m.Prepared):
            self._verify(message, peer.name)
        elif isinstance(message, m.ShardState):
            self._reads.keep_state(message, peer.name)
        elif isinstance(message, m.BatchFailed):
            self._fail_batch(message, host_of(peer.name))
        elif isinstance(message, m.PeerUnreachable):
            receiver = self._reads.receiver_of(message.run) or "?"
            self._health.record_unreachable(receiver, f"{message.why} (worker {peer.name})", now)
        elif isinstance(message, m.Leaving):
            peer.leaving = True
            self._scheduler.drain_worker(peer.name, message.keeps)

    def _verify(self, prepared: m.Prepared, worker: str) -> None:
        """Have another worker prepare a batch again, or compare what it has prepared."""
        batch, run = (prepared.run, prepared.step), prepared.run
        if run not in self._reads:
            return
        content = BatchContent(
            structure=prepared.structure, arrays=prepared.arrays, rows=prepared.rows
        )
        if not prepared.again:
            self._verifier.add(batch, worker, content)
            self._ask_for_second()
        elif (first := self._verifier.pop_first(batch)) is not None:
            self._compare(prepared, first[1], content, (first[0], worker))
            if self._verifier.is_done(run):
                self._scheduler.release_last(run)

    def _ask_for_second(self) -> None:
        """Ask workers to prepare again what waits for that."""
        for (run, step), name in self._verifier.to_ask(self._scheduler.living):
            worker = self._workers[name]
            worker.send(*self._definition(run, worker), m.Verify(run=run, step=step))

    def _compare(
        self, prepared: m.Prepared, one: BatchContent, other: BatchContent, workers: Sequence[str]
    ) -> None:
        plan = self._reads.plan(prepared.run)
        if not isinstance(plan, BatchPlan):
            return
        ids = [] if plan.spec.is_sampled else plan.sample_ids(prepared.step)
        if not (difference := one.difference(other, ids)):
            return
        text = describe_difference(plan, prepared.step, difference)
        if plan.spec.on_nondeterminism == "error":
            self._reads.fail(m.RunFailed(run=prepared.run, kind="dataset", message=text))
        elif plan.spec.dataset not in self._differing:
            self._differing.add(plan.spec.dataset)
            emit("dataset_differs", dataset=plan.spec.dataset, why=text, workers=list(workers))

    def _definition(self, run: str, worker: Peer) -> list[m.Message]:
        """Return the definition of an epoch read if a worker does not know it, or its states."""
        if run in worker.known_runs and self._reads.has_states(run, worker.name):
            return []
        worker.known_runs.add(run)
        address = self._addresses[self._reads.receiver_of(run)]
        return [self._reads.definition(run, address, worker.name)]

    def _fail_batch(self, failed: m.BatchFailed, host: str) -> None:
        self._reads.fail(
            m.RunFailed(
                run=failed.run,
                kind="sample" if failed.index is not None else "dataset",
                message=_with_host(failed.message, host),
                index=failed.index,
                remote_traceback=failed.remote_traceback,
                type_names=failed.type_names,
            )
        )

    # Messages from receivers --------------------------------------------------------------

    def _receive_from_receiver(self, peer: Peer, message: m.Message) -> None:
        if isinstance(message, m.ProgressUpdate):
            self._record_progress(peer, message)
        elif isinstance(message, m.Damaged):
            self._scheduler.release_damaged(message.run, message.worker)
        elif isinstance(message, m.Describe):
            self._describe(peer, message)
        elif isinstance(message, m.OpenRun):
            if message.run not in self._reads:  # otherwise the registration already opened it
                self._reads.open(peer, message)
        elif isinstance(message, m.CloseRun):
            self._reads.close(message.run)
        elif isinstance(message, m.Confirmed):
            self._reads.confirm(message.run)
        elif isinstance(message, m.Goodbye):
            peer.send(m.Close())

    def _record_progress(self, peer: Peer, progress: m.ProgressUpdate) -> None:
        now = self._now()
        for run, batches in progress.arrived.items():
            for step, worker, size in batches:
                self._scheduler.record_arrival(run, step, worker, size, now)
                if self._verifier.record_arrival(run, step):
                    self._scheduler.release_last(run)
        for run, steps in progress.taken.items():
            for step in steps:
                self._scheduler.record_consumed(run, step, now)
        if progress.arrived:
            self._health.record_reached(peer.name)

    def _describe(self, peer: Peer, question: m.Describe) -> None:
        is_asked = question in self._dataset_lengths.asked
        answer = self._dataset_lengths.ask(peer.name, question.dataset, self._now())
        if answer is not None:
            peer.send(answer)
        elif not is_asked:
            for worker in self._workers.values():
                worker.send(question)

    # Leases -------------------------------------------------------------------------------

    def assign(self) -> None:
        """Send the revocations and the leases that are due."""
        outgoing: dict[str, list[m.Message]] = {}
        for revoked in self._scheduler.pop_revoked():
            if revoked.worker in self._workers:
                messages = outgoing.setdefault(revoked.worker, [])
                messages.append(m.Revoke(run=revoked.run, steps=list(revoked.steps)))
        for assignment in self._scheduler.assign(self._now()):
            messages = outgoing.setdefault(assignment.worker, [])
            messages += self._definition(assignment.run, self._workers[assignment.worker])
            self._metrics.count("leases", len(assignment.steps))
            messages.append(m.Lease(run=assignment.run, steps=list(assignment.steps)))
        for name, messages in outgoing.items():
            self._workers[name].send(*messages)


def _with_host(error: str, host: str) -> str:
    """Return the error with its host added to the first line, before the traceback."""
    line, end, traceback = error.partition("\n")
    return f"{line} (on data host {host}){end}{traceback}"
