"""The batch buffer of a train host: batches in shared memory from arrival until released."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from launcher.data.batches import wire
from launcher.data.control import messages as m
from launcher.data.memory import RETURNED, TAKEN, Slab, SlabPool
from launcher.data.metrics import ReceiverCounters
from launcher.data.order import StepSet
from launcher.data.receiver.host_limits import memory_bytes
from launcher.data.receiver.local_peers import LocalPeer, coalesced_batches
from launcher.data.receiver.progress_reporter import ProgressReporter
from launcher.runtime import emit

#: Damaged batches after which an epoch read is given up.
_MAX_DAMAGED = 10
#: Bytes of the largest batch that is coalesced; waking the rank costs little beside a larger one.
_MAX_COALESCED_SIZE = 8 << 20


@dataclass(eq=False)
class _BufferedRun:
    rank: LocalPeer
    in_order: bool
    next_step: int = 0  # if in order: every step before it was handed over
    handed: StepSet = field(default_factory=StepSet)  # if not in order: the steps handed over
    waiting: dict[int, tuple[wire.Header, Slab]] = field(default_factory=dict)
    damaged: int = 0

    def wants(self, step: int) -> bool:
        if self.in_order:
            return step >= self.next_step and step not in self.waiting
        return step not in self.handed and step not in self.waiting

    @property
    def has_ready(self) -> bool:
        return self.next_step in self.waiting or not self.in_order

    def pop_ready(self) -> Iterator[tuple[wire.Header, Slab]]:
        """Yield and remove the batches that can be handed over now: the next in order, or any."""
        if self.in_order:
            while (entry := self.waiting.pop(self.next_step, None)) is not None:
                self.next_step += 1
                yield entry
            return
        for step in list(self.waiting):
            self.handed.add(step)
            yield self.waiting.pop(step)


class BatchBuffer:
    """Keeps batches until their rank can take them, and hands them over. Thread-safe.

    reporter: records arrivals and consumed batches for the dispatcher.
    """

    def __init__(self, prefetch_bytes: int, reporter: ProgressReporter) -> None:
        self._reporter = reporter
        self._prefetch_bytes = prefetch_bytes
        self._lock = threading.Lock()
        # Used to refuse a batch that exceeds this host's memory before it is received.
        self._memory = memory_bytes()
        self._pool = SlabPool(prefetch_bytes, self._retire)
        self._counters = ReceiverCounters(prefetch_bytes)
        self._runs: dict[str, _BufferedRun] = {}
        # By rank, the epoch reads of the batches held back to be coalesced.
        self._held: dict[LocalPeer, list[_BufferedRun]] = {}
        #: Processes that currently share the slabs.
        self.peers: set[LocalPeer] = set()

    # Batches ------------------------------------------------------------------------------

    def wants(self, header: wire.Header) -> bool:
        """Return True if the batch's epoch read is open and no copy of it is here yet."""
        with self._lock:
            run = self._runs.get(header.run)
            return run is not None and run.wants(header.step)

    def take(self, header: wire.Header) -> Slab | None:
        """Return a slab for a batch, or None if the batch is not wanted.

        Raises OSError, after notifying the rank.
        """
        with self._lock:
            run = self._runs.get(header.run)
            if run is None or not run.wants(header.step):
                return None
            if run.rank not in self._held:  # otherwise its marks are read at the next delivery
                self._poll_peer(run.rank)
        try:
            return self._pool.take(header.total_bytes)
        except OSError as error:  # otherwise the rank would wait forever
            advice = (
                " (release batches, or raise the limit of open files: ulimit -n)"
                if error.errno == errno.EMFILE
                else ""
            )
            self._fail(header.run, f"the receiver has no memory for a batch: {error}{advice}")
            raise

    def release(self, *slabs: Slab) -> None:
        """Return slabs to the pool."""
        for slab in slabs:
            self._pool.release(slab)

    def store(self, header: wire.Header, slab: Slab) -> bool:
        """Store a batch that is still wanted; return False for second copies and closed reads.

        The batch may be held back to be delivered together with the next ones. Call
        `deliver_if_last` when no other batch is arriving.
        """
        with self._lock:
            run = self._runs.get(header.run)
            if run is None or not run.wants(header.step):
                return False
            self._counters.arrived(header.total_bytes)
            # Report the arrival before the rank can report that it consumed the batch.
            self._reporter.arrived(header.run, header.step, header.worker, slab.size)
            run.waiting[header.step] = (header, slab)
            if run.has_ready:
                held = self._held.setdefault(run.rank, [])
                held.append(run)
                is_quick = run.rank.record_arrival()
                if not is_quick or not self._can_hold_back(run.rank, slab, len(held)):
                    self._deliver(run.rank)
        return True

    def metrics(self) -> dict[str, float]:
        """Return the metrics of what has arrived and how much of it is held."""
        with self._lock:
            for peer in list(self.peers):  # a copy, because peers may join meanwhile
                self._poll_peer(peer)
        return self._counters.numbers(held=self._pool.used_bytes, high=self._pool.most_used_bytes)

    def _poll_peer(self, peer: LocalPeer) -> None:
        """Record which batches the peer's script has, and take back the slabs it returned."""
        for loan, new in peer.poll_marks():
            if new & TAKEN:
                self._reporter.record_consumed_mark(loan.run, loan.step, loan.slab.size)
            if new & RETURNED:
                self._pool.release(loan.slab)

    def _can_hold_back(self, rank: LocalPeer, slab: Slab, count: int) -> bool:
        """Return True if `count` batches, of which `slab` holds the latest, can be held back."""
        return (
            count < coalesced_batches(slab.size)
            and slab.size <= _MAX_COALESCED_SIZE
            and slab.number in rank.seen
            # Held-back batches must not use up the memory of those they wait for.
            and (count + 1) * slab.size * len(self.peers) <= self._prefetch_bytes / 2
        )

    def _deliver(self, rank: LocalPeer) -> None:
        """Deliver the batches held back for a rank."""
        self._poll_peer(rank)
        runs = dict.fromkeys(self._held.pop(rank, ()))
        rank.deliver([self._lend(rank, *batch) for run in runs for batch in run.pop_ready()])

    def _lend(self, rank: LocalPeer, header: wire.Header, slab: Slab) -> tuple[m.Batch, Slab]:
        new = rank.lend(slab, header.run, header.step)
        number, size, content = slab.number, header.total_bytes, header.content_bytes
        return m.Batch(header.run, header.step, number, size, new, content), slab

    def arrivals_if_held(self, run_id: str) -> int:
        """Return how many batches have arrived for an epoch read's rank; 0 if none is held."""
        run = self._runs.get(run_id)
        return run.rank.arrived if run is not None and run.rank in self._held else 0

    def deliver_if_last(self, run_id: str, arrived: int) -> None:
        """Deliver what is held back if no batch has arrived since the count `arrived` was taken."""
        with self._lock:
            run = self._runs.get(run_id)
            if run is not None and run.rank.arrived == arrived:
                self._deliver(run.rank)

    def deliver_held(self) -> None:
        """Deliver what is held back for every rank."""
        with self._lock:
            for rank in list(self._held):
                self._deliver(rank)

    def admit(self, header: wire.Header) -> bool:
        """Refuse a wanted batch that exceeds this host's memory; return False then."""
        size = header.total_bytes
        if size <= self._memory or not self.wants(header):
            return True
        gigabytes, memory = size / 1e9, self._memory / 1e9
        self.refuse(
            header, f"it has {gigabytes:.1f} GB, and this host has {memory:.1f} GB of memory"
        )
        return False

    def refuse(self, header: wire.Header, why: str) -> None:
        """Have a damaged batch prepared again.

        Its header may be what was damaged, so the named batch may be the wrong one.
        """
        host, _, _ = header.worker.partition("/")
        emit(
            "batch_damaged",
            run=header.run,
            step=header.step,
            worker=header.worker,
            by_host=host,
            why=why,
        )
        with self._lock:
            run = self._runs.get(header.run)
            if run is None:
                return
            run.damaged += 1
            self._reporter.damaged(header.run, header.step, header.worker)
        if run.damaged >= _MAX_DAMAGED:
            self._fail(
                header.run,
                f"{run.damaged} batches were refused by this host, the last from the worker "
                f"{header.worker}: {why}",
            )

    # Epoch reads --------------------------------------------------------------------------

    def open_run(self, opened: m.OpenRun, rank: LocalPeer) -> None:
        """Open an epoch read, whose batches are wanted from now on."""
        with self._lock:
            self._runs[opened.run] = _BufferedRun(rank, opened.in_order)

    def close_run(self, run_id: str) -> None:
        """Close an epoch read; none of its batches is wanted any more."""
        with self._lock:
            run = self._runs.pop(run_id, None)
            if run is not None:
                self._poll_peer(run.rank)  # what it consumed last
                self.release(*(slab for _, slab in run.waiting.values()))
                run.waiting.clear()  # some may still be listed in _held

    def is_read(self, run_id: str) -> bool:
        """Return True if an epoch read is open and its rank is alive."""
        with self._lock:
            run = self._runs.get(run_id)
        return run is not None and not run.rank.is_gone

    def notify(self, run_id: str, message: m.Message) -> None:
        """Forward a message to the rank of an epoch read, if the read is open."""
        with self._lock:
            if run := self._runs.get(run_id):
                self._deliver(run.rank)  # first what arrived before
        if run is not None:
            run.rank.notify(message)

    def _fail(self, run_id: str, message: str) -> None:
        emit("batch_refused", run=run_id, why=message)
        self.notify(run_id, m.RunFailed(run=run_id, kind="unavailable", message=message))

    # Local peers --------------------------------------------------------------------------

    def lend(self, peer: LocalPeer, wanted: m.NeedSlab) -> None:
        """Answer a local worker that needs a slab for a batch."""
        header = wire.Header(
            run=wanted.run, step=wanted.step, worker="", payload_bytes=wanted.size, content_bytes=0
        )
        slab = self.take(header)
        if slab is None:
            peer.notify(m.SlabLent(slab=None))
        else:
            with self._lock:
                is_new = peer.lend(slab, wanted.run, wanted.step)
            peer.deliver([(m.SlabLent(slab=slab.number, new=is_new), slab)])

    def store_filled(self, peer: LocalPeer, filled: m.SlabFilled) -> None:
        """Store a batch that a local worker has written."""
        with self._lock:
            loan = peer.lent.pop(filled.slab, None)
        header = wire.Header(
            run=filled.run,
            step=filled.step,
            worker=filled.worker,
            payload_bytes=filled.size,
            content_bytes=filled.content,
        )
        if loan is not None and not self.store(header, loan.slab):
            self.release(loan.slab)
        self.deliver_held()

    def forget(self, peer: LocalPeer) -> list[str]:
        """Clean up after a local peer is gone; return its epoch reads, which end.

        Its slabs return to the pool.
        """
        with self._lock:
            runs = [run_id for run_id, run in self._runs.items() if run.rank is peer]
        for run_id in runs:
            self.close_run(run_id)
        with self._lock:
            lent = [loan.slab for loan in peer.lent.values()]
            peer.lent.clear()
            self.peers.discard(peer)
            self._held.pop(peer, None)
        self.release(*lent)
        return runs

    def _retire(self, slab: Slab) -> None:
        """Notify the local peers that have seen a slab before it is freed."""
        for peer in list(self.peers):
            peer.forget(slab)
