"""A worker: one process that prepares the batches it is leased.

`python -m launcher.data.worker INDEX` loads, collates and sends batches until the dispatcher
closes. The main thread runs only the user's code. Control, heartbeat and sending have their own
threads, so that a batch is sent while the next one is prepared. At SIGTERM the worker finishes its
current batch, gives its other leases back and exits with 0.
"""

from __future__ import annotations

import contextlib
import functools
import os
import queue
import signal
import sys
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeGuard

from launcher.data.batches import Array, batch_memory, structure, wire
from launcher.data.control import Control
from launcher.data.control import messages as m
from launcher.data.memory import ReusedMemory
from launcher.data.metrics import WorkerCounters, report_regularly
from launcher.data.order import (
    BatchContent,
    BatchPlan,
    LocalVerifier,
    Parts,
    SavedState,
    SavedStates,
    ServedCodeCheck,
    ShardReaderPlan,
    ShardReaders,
    error_repr,
    latest_traceback,
    samples,
    shard_interleaving,
    verification,
)
from launcher.data.repeatable import seeding
from launcher.data.worker.lease_state import LeaseState
from launcher.data.worker.senders import SharedMemorySender, StripedSender
from launcher.errors import DataError, SampleError
from launcher.runtime import (
    RECEIVER_VARIABLE,
    Environment,
    emit,
    emit_text,
    handle_signals_here,
    paths_here,
    print_whole_lines,
)
from launcher.shared import backoff, enter

_HEARTBEAT_SECONDS = 1.0
_EARLY_HEARTBEAT_SECONDS = 0.1
_RETRY_SECONDS = 0.5
#: Niceness of a worker beside a trainer, so that it uses only spare CPU time (sched(7)).
_NICENESS = 10
#: Seconds to send the started batches before a worker that was asked to leave exits.
_LEAVING_SECONDS = 30.0


class DataWorker:
    """Prepares and sends the batches of one process; its threads share only thread-safe state."""

    def __init__(self, name: str, environment: Environment) -> None:
        self.name = name
        self._token = environment.token
        part = environment.document.data
        self._served = ServedCodeCheck(
            part.datasets if part else (),
            code=environment.paths.code,
            entry_point=environment.document.trainer.entry_point,
        )
        self._checksums = part.checksums if part else False
        self._workers_per_host = (part.workers_per_host if part else None) or environment.cpus
        self._receiver = os.environ.get(RECEIVER_VARIABLE)  # this host's, if it is a train host
        self._senders: dict[tuple[str, int], StripedSender | SharedMemorySender] = {}
        self._datasets = samples.Datasets()
        self._shard_readers = ShardReaders()
        self._saved: dict[str, SavedStates] = {}  # of the shards' datasets
        self._inexact: set[str] = set()  # datasets whose states are not
        self._seeded: set[str] = set()
        self._verifier = LocalVerifier()
        self._prepared: set[str] = set()  # datasets of which this process has prepared a batch
        self._runs: dict[str, tuple[BatchPlan | ShardReaderPlan, tuple[str, int]]] = {}
        self._work: queue.SimpleQueue[m.Message | None] = queue.SimpleQueue()
        # One batch waits while one is sent, so a worker holds at most three batches. The bounded
        # queue.Queue was measured to take twice as long.
        self._outbox: queue.SimpleQueue[wire.WireFrame] = queue.SimpleQueue()
        self._outbox_has_room = threading.Lock()  # released when a batch is taken out
        self._leases = LeaseState(name, os.getpid())
        self._host = environment.cluster.host
        own = part.local_workers if part and self._receiver else environment.cpus
        self._counters = WorkerCounters(cpus=own)
        self._leaving = False
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()  # for an early heartbeat
        self._control = Control(environment, self._leases.registration)

    def work(self) -> int:
        """Prepare batches until the dispatcher closes or `leave` is called.

        Returns the exit code: 0, or 1 if the dispatcher is lost.
        """
        for duty in (self._receive_messages, self._send, self._send_heartbeats):
            threading.Thread(target=duty, daemon=True).start()
        report_regularly(self._report_metrics)
        self._served.import_listed()
        batch_memory.set(ReusedMemory().memory_for)
        while (order := self._work.get()) is not None:
            if isinstance(order, m.Close):
                return self._finish() if self._leaving else 0
            if isinstance(order, m.Describe):
                self._describe(order.dataset)
            elif isinstance(order, m.Lease):
                for step in order.steps:
                    self._prepare(order.run, step)
            elif isinstance(order, m.Verify):
                self._verify(order.run, order.step)
            elif isinstance(order, m.CloseRun):
                self._shard_readers.end(order.run)
        return 1

    def leave(self) -> None:
        """Request the end; called in signal handlers, so it takes no lock."""
        self._leaving = True
        self._work.put(m.Close())
        self._wake.put(None)

    def _finish(self) -> int:
        self._leases.wait_until_sent(_LEAVING_SECONDS)
        self._report_metrics()
        self._control.send(self._leases.leave())
        self._control.close()
        return 0

    # The main thread ----------------------------------------------------------------------

    def _describe(self, reference: str) -> None:
        try:
            self._served.check_dataset(reference)
            described = samples.describe(self._datasets[reference])
            answer = m.Length(dataset=reference, **vars(described))
        except DataError as error:
            answer = self._failed_description(reference, str(error))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's __len__
            text = (
                f"{reference}: its length is not known: {error_repr(error)}\n{latest_traceback()}"
            )
            answer = self._failed_description(reference, text)
        self._control.send(answer)

    def _failed_description(self, reference: str, error: str) -> m.Length:
        message, _, trace = error.partition("\n")
        emit_text("dataset_failed", trace, worker=self.name, cause=message)  # for this host's log
        return m.Length(dataset=reference, length=-1, error=error)

    def _prepare(self, run: str, step: int) -> None:
        definition = self._runs.get(run)
        if definition is None or self._leaving:  # closed since, or left to other workers
            self._leases.finish(run, step)
            return
        plan, _ = definition
        if not self._leases.start(run, step):
            return
        try:
            self._served.check(plan.spec)
            prepare = self._batch_function(run, plan, step)
            self._counters.begin()
            tree, arrays = prepare()
            self._prepared.add(plan.spec.dataset)
            if _is_compared_here(plan, step):
                self._verifier.check(plan, step, (tree, arrays), prepare)
            else:
                self._report_content(run, plan, step, tree, arrays, again=False)
            frame = wire.WireFrame.pack(
                run, step, self.name, tree, arrays, checksums=self._checksums
            )
        except DataError as error:
            self._leases.finish(run, step)
            self._report(run, step, error)
            return
        self._leases.record_seconds("prepare", self._counters.prepared())
        self._outbox_has_room.acquire()
        self._outbox.put(frame)
        self._counters.handed_over()

    def _batch_function(
        self, run: str, plan: BatchPlan | ShardReaderPlan, step: int
    ) -> Callable[[], Parts]:
        """Return the function that makes the batch.

        One-time work, which should not count towards the pace, is done here.
        """
        if isinstance(plan, ShardReaderPlan):
            reader = self._shard_readers.reader(run, plan, self._saved.get(run))
            reader.find(step)
            return lambda: shard_interleaving.pack(reader.read(step))
        if plan.spec.seeding == "worker" and run not in self._seeded:
            self._seeded.add(run)  # as long as the worker lives; there is one for each epoch
            own = zlib.crc32(self.name.encode())
            seeding.seed_everything(
                seeding.sample_seed(plan.spec.seed, plan.epoch, own, purpose=b"worker")
            )
        dataset = self._datasets.ready(plan.spec, plan.epoch)
        return lambda: structure.disassemble(
            samples.load_batch(dataset, plan, step), **plan.spec.sending
        )

    def _verify(self, run: str, step: int) -> None:
        """Prepare a batch as another worker has, and report what it holds.

        Generators in C begin alike in each process, so it is not the first one of its dataset here.
        """
        plan, _ = self._runs.get(run, (None, None))
        if not isinstance(plan, BatchPlan) or self._leaving:
            return
        try:
            self._served.check(plan.spec)
            prepare = self._batch_function(run, plan, step)
            if plan.spec.dataset not in self._prepared:
                self._prepared.add(plan.spec.dataset)
                prepare()
            tree, arrays = prepare()
        except DataError as error:
            self._report(run, step, error)
            return
        self._report_content(run, plan, step, tree, arrays, again=True)

    def _report_content(
        self,
        run: str,
        plan: BatchPlan | ShardReaderPlan,
        step: int,
        tree: object,
        arrays: list[Array],
        *,
        again: bool,
    ) -> None:
        """Report what a batch holds if it is one of those that are prepared twice."""
        if isinstance(plan, BatchPlan) and verification.is_chosen(plan, step):
            content = BatchContent.of_step(plan, step, tree, arrays)
            self._control.send(m.Prepared(run=run, step=step, again=again, **vars(content)))

    def _report(self, run: str, step: int, error: DataError) -> None:
        message, _, rest = str(error).partition("\n")
        sample = error if isinstance(error, SampleError) else None
        trace = sample.remote_traceback if sample else rest
        emit_text("batch_failed", trace, worker=self.name, cause=message)  # for this host's log
        self._control.send(
            m.BatchFailed(
                run=run,
                step=step,
                message=message,
                index=sample.index if sample else None,
                remote_traceback=trace,
                type_names=list(error.type_names),
            )
        )

    # The other threads --------------------------------------------------------------------

    def _receive_messages(self) -> None:
        """Handle messages until the dispatcher is gone or sends an invalid one."""
        try:
            while (message := self._control.receive()) is not None:
                self._handle(message)
        finally:
            self._work.put(None)

    def _handle(self, message: m.Message) -> None:
        """Handle one message; definitions are stored here, before the lease that needs them."""
        if isinstance(message, m.DefineRun):
            host, port = message.address
            self._runs[message.run] = plan, _ = m.decode_plan(message.plan), (host, port)
            if message.run not in self._saved:
                send = functools.partial(self._send_state, message.run)
                saved = SavedStates(plan.spec.dataset, send, inexact=self._inexact)
                self._saved[message.run] = saved
            self._saved[message.run].add(map(SavedState.from_json, message.states))
            self._leases.define(message.run)
        elif isinstance(message, m.Revoke):
            self._leases.revoke(message.run, message.steps)
        elif isinstance(message, m.CloseRun):
            self._runs.pop(message.run, None)
            self._saved.pop(message.run, None)
            self._leases.forget(message.run)
            self._work.put(message)  # the main thread closes its iterators
        else:
            if isinstance(message, m.Lease):
                self._leases.lease(message.run, message.steps)
            self._work.put(message)

    def _send_state(self, run: str, state: SavedState) -> None:
        self._control.send(m.ShardState(run=run, state=vars(state)))

    def _send(self) -> None:
        while True:
            frame = self._outbox.get()
            self._outbox_has_room.release()
            batch = frame.header
            started = time.perf_counter()
            # Retry until it is sent or no longer wanted: other workers may have no route either.
            for _ in backoff(first=_RETRY_SECONDS, longest=_RETRY_SECONDS):
                if (definition := self._runs.get(batch.run)) is None:
                    break
                if self._deliver(frame, definition[1]):
                    self._leases.record_seconds("send", time.perf_counter() - started)
                    break
            self._counters.sent(batch.payload_bytes)
            self._leases.finish(batch.run, batch.step)
            if self._leases.has_changes:
                self._wake.put(None)
            del frame  # free its arrays before the next one arrives

    def _deliver(self, frame: wire.WireFrame, address: tuple[str, int]) -> bool:
        try:
            self._sender(address).send(frame)
        except (DataError, OSError) as error:
            emit("batch_not_sent", worker=self.name, run=frame.header.run, why=str(error))
            self._control.send(m.PeerUnreachable(run=frame.header.run, why=str(error)))
            return False
        return True

    def _sender(self, address: tuple[str, int]) -> StripedSender | SharedMemorySender:
        """Return the sender for a receiver: shared memory if it is local, else the network."""
        if address not in self._senders:
            self._senders[address] = (
                SharedMemorySender(self._receiver)
                if self._receiver
                else StripedSender(address, self._token, workers=self._workers_per_host)
            )
        return self._senders[address]

    def _report_metrics(self) -> None:
        figures = self._counters.numbers()
        self._control.send(
            m.Report(kind="worker", of=self._host, process=self.name, figures=figures)
        )

    def _send_heartbeats(self) -> None:
        while True:
            self._control.send(self._leases.heartbeat())
            if self._leaving:
                self._control.send(self._leases.leave())
            time.sleep(_EARLY_HEARTBEAT_SECONDS)
            with contextlib.suppress(queue.Empty):
                self._wake.get(timeout=_HEARTBEAT_SECONDS - _EARLY_HEARTBEAT_SECONDS)
                while True:  # one heartbeat serves all requests
                    self._wake.get_nowait()


def _is_compared_here(plan: BatchPlan | ShardReaderPlan, step: int) -> TypeGuard[BatchPlan]:
    """Return whether a batch is the last one, and chosen: the epoch would end meanwhile."""
    return (
        isinstance(plan, BatchPlan)
        and step == plan.steps - 1
        and verification.is_chosen(plan, step)
    )


def _lower_priority() -> None:
    os.nice(_NICENESS)
    # Where the kernel groups processes by session, only the group's niceness counts.
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(_NICENESS))


def _handlers(worker: DataWorker) -> dict[int, Callable[..., object]]:
    """Return what ends a worker of a data host; one beside a rank leaves that to its host."""
    if RECEIVER_VARIABLE in os.environ:
        return dict.fromkeys((signal.SIGTERM, signal.SIGINT), lambda *_: None)
    return {signal.SIGTERM: lambda *_: worker.leave()}


def main() -> int:
    """Run the worker process; return its exit code."""
    paths = paths_here()
    environment = Environment.read(paths)
    if RECEIVER_VARIABLE in os.environ:
        _lower_priority()
    print_whole_lines()
    script = paths.code / (environment.document.trainer.entry_point or "train.py")
    enter(str(paths.code), str(script.parent))
    name = f"{environment.cluster.host}/{sys.argv[1]}/{os.getpid()}"
    try:
        worker = DataWorker(name, environment)
        handle_signals_here(_handlers(worker))
        return worker.work()
    except (DataError, OSError) as error:
        emit("worker_failed", worker=name, why=str(error))
        return 1
