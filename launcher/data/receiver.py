"""The receiver: one process on a train host that takes batches in and shows them to the ranks.

`python -m launcher.data.receiver` listens for workers on TCP and for ranks on a Unix socket. It is
a process of its own because a receiving thread was measured to fight the training loop for the
interpreter lock. It holds batches until it is their rank's turn, hands over shared memory, and
passes on what the ranks say to the dispatcher.
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from types import FrameType

from launcher.data import messages as m
from launcher.data import wire
from launcher.data.account import Account
from launcher.data.control import Control
from launcher.data.meters import ReceiverMeter, report_regularly
from launcher.data.slabs import Slab, SlabPool
from launcher.data.steps import StepSet
from launcher.errors import AuthenticationError, DataError, WireError
from launcher.runtime import handshake, lines
from launcher.runtime.environment import Environment, paths_here
from launcher.runtime.events import emit
from launcher.runtime.processes import CLOSE_SIGNAL
from launcher.runtime.train import RECEIVER_VARIABLE

#: Seconds between two reports to the dispatcher: at most 200 messages a second.
_REPORT_PAUSE = 0.005
_PEER_CREDENTIALS = struct.Struct("3i")
#: Damaged batches of a run before it is given up.
_MOST_DAMAGED = 10


@dataclass(eq=False)
class _Rank:
    """One loader's connection; everything for it leaves through one thread, in order."""

    connection: socket.socket
    outbox: queue.SimpleQueue[tuple[m.Message, int | None] | None] = field(
        default_factory=queue.SimpleQueue
    )
    seen: set[int] = field(default_factory=set)  # slabs whose descriptors it has
    lent: dict[int, Slab] = field(default_factory=dict)

    def tell(self, message: m.Message, descriptor: int | None = None) -> None:
        self.outbox.put((message, descriptor))


@dataclass
class _Run:
    rank: _Rank
    in_order: bool = True
    next_step: int = 0
    handed: StepSet = field(default_factory=StepSet)
    waiting: dict[int, tuple[wire.Header, Slab, int]] = field(default_factory=dict)
    damaged: int = 0

    def wants(self, step: int) -> bool:
        return step not in self.handed and step not in self.waiting


class Receiver:
    """All batches for one train host. `_lock` guards the pool, the runs and the ranks."""

    def __init__(self, environment: Environment, socket_name: str) -> None:
        cluster = environment.cluster
        self._host = cluster.host
        self._token = environment.token
        self._lock = threading.Lock()
        self._leaving = threading.Event()
        self._dismissed = threading.Event()
        part = environment.document.data
        self._checksums = part.checksums if part else False
        # A batch that this host could never hold is refused before it comes.
        self._memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self._pool = SlabPool(part.prefetch_bytes if part else 0, self._retire)
        self._meter = ReceiverMeter(part.prefetch_bytes if part else 0)
        self._runs: dict[str, _Run] = {}
        self._asking: dict[str, list[_Rank]] = {}
        self._attended: set[_Rank] = set()
        self._workers = socket.create_server(
            (cluster.bind_address, environment.ports.receiver), backlog=1024
        )
        self._ranks = socket.socket(socket.AF_UNIX)
        self._ranks.bind(f"\0{socket_name}")  # an abstract name: no file to leave behind
        self._ranks.listen(128)
        address = (cluster.address(cluster.host), environment.ports.receiver)
        self._account = Account(cluster.host, address)
        self._control = Control(environment, self._account.hello)

    def serve(self) -> None:
        """Start the threads that accept; returns when the dispatcher has gone before its time."""
        for duty in (self._accept_workers, self._accept_ranks, self._report):
            threading.Thread(target=duty, daemon=True).start()
        report_regularly(self._report_numbers)
        self._follow_dispatcher()
        if self._leaving.is_set():
            threading.Event().wait()  # `leave` ends the process

    def leave(self, patience: float = 5.0) -> None:
        """Pass on what the ranks, which have ended, have said last; then end this process.

        The dispatcher may have to be started again to hear it.
        """
        self._leaving.set()
        deadline = time.monotonic() + patience
        while self._attended and time.monotonic() < deadline:
            time.sleep(0.01)
        self._account.leave()
        self._dismissed.wait(max(0.0, deadline - time.monotonic()))
        self._control.close()
        os._exit(0)

    def _retire(self, slab: Slab) -> None:
        """A slab is given back to the kernel, also by the ranks that have seen it."""
        for rank in list(self._attended):
            if slab.number in rank.seen:
                rank.seen.discard(slab.number)
                rank.tell(m.Forget(slab=slab.number))

    # The dispatcher -----------------------------------------------------------------------

    def _follow_dispatcher(self) -> None:
        while (message := self._control.hear()) is not None:
            if isinstance(message, m.Length):
                self._account.answered(message.dataset)
                with self._lock:
                    askers = self._asking.pop(message.dataset, [])
                for rank in askers:
                    rank.tell(message)
            elif isinstance(message, m.Close):
                self._dismissed.set()
            elif isinstance(message, m.RunFailed):
                with self._lock:
                    run = self._runs.get(message.run)
                if run is not None:
                    run.rank.tell(message)

    def _report(self) -> None:
        """Tell the dispatcher what has happened; what happens in the pause goes in one message."""
        while True:
            for message in self._account.news():
                self._control.say(message)
            time.sleep(_REPORT_PAUSE)

    def _report_numbers(self) -> None:
        figures = self._meter.numbers(self._pool.used_bytes)
        self._control.say(
            m.Report(kind="receiver", of=self._host, process=str(os.getpid()), figures=figures)
        )

    # Workers ------------------------------------------------------------------------------

    def _accept_workers(self) -> None:
        for connection, peer in lines.accepted(self._workers, "receiver"):
            threading.Thread(
                target=self._attend_worker, args=(connection, peer), daemon=True
            ).start()

    def _attend_worker(self, connection: socket.socket, peer: tuple[str, int]) -> None:
        with connection:
            try:
                handshake.greet(connection, self._token)
                while self._receive_frame(connection):
                    pass
            except (AuthenticationError, WireError) as error:
                emit("stranger_refused", peer=peer[0], port="receiver", why=str(error)[:120])
            except OSError:
                return  # a worker that died; the dispatcher knows

    def _receive_frame(self, connection: socket.socket) -> bool:
        start = bytearray(wire.PREFIX_BYTES)
        if not wire.receive_exactly(connection, memoryview(start)):
            return False
        prefix = wire.read_prefix(start)
        named = bytearray(prefix.header_bytes)
        if not wire.receive_exactly(connection, memoryview(named)):
            return False
        header = wire.read_header(named)
        if not self._wants(header):
            return wire.skip(connection, prefix.payload_bytes)
        if prefix.payload_bytes > self._memory:
            size, memory = prefix.payload_bytes / 1e9, self._memory / 1e9
            self._refuse(header, f"it has {size:.1f} GB, and this host {memory:.1f} GB in all")
            return False
        slab = self._take_slab(header.run, prefix.payload_bytes)
        kept = False
        try:
            with memoryview(slab.memory)[: prefix.payload_bytes] as payload:
                complete = wire.receive_exactly(connection, payload)
                intact = not self._checksums or wire.is_intact(prefix, named, payload)
            if complete and intact:
                kept = self._keep(header, slab, prefix.payload_bytes)
        finally:
            if not kept:
                with self._lock:
                    self._pool.give(slab)
        if complete and not intact:
            self._refuse(header, "its checksum differs")
        return complete and intact

    def _wants(self, header: wire.Header) -> bool:
        """Whether a batch is worth memory: its run is open, and no copy of it is here yet."""
        with self._lock:
            run = self._runs.get(header.run)
            return run is not None and run.wants(header.step)

    def _take_slab(self, run_id: str, size: int) -> Slab:
        """Memory for a batch; the rank, which would wait, hears when there is none."""
        try:
            with self._lock:
                return self._pool.take(size)
        except OSError as error:
            self._fail(run_id, f"the receiver has no memory for a batch: {error}")
            raise

    def _refuse(self, header: wire.Header, why: str) -> None:
        """Let a damaged batch be prepared again; what named it may be what was damaged."""
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
            self._account.damaged(header.run, header.step, header.worker)
        if run.damaged >= _MOST_DAMAGED:
            self._fail(
                header.run,
                f"{run.damaged} batches were refused by this host, the last from the worker "
                f"{header.worker}: {why}",
            )

    def _fail(self, run_id: str, message: str) -> None:
        emit("batch_refused", run=run_id, why=message)
        with self._lock:
            run = self._runs.get(run_id)
        if run is not None:
            run.rank.tell(m.RunFailed(run=run_id, kind="unavailable", message=message))

    def _keep(self, header: wire.Header, slab: Slab, size: int) -> bool:
        """Note a batch that is still wanted; False for second copies and closed runs."""
        with self._lock:
            run = self._runs.get(header.run)
            if run is None or not run.wants(header.step):
                return False
            run.waiting[header.step] = (header, slab, size)
            self._meter.arrived(size, self._pool.used_bytes)
            if not run.in_order:
                run.next_step = header.step
            # The dispatcher hears of the arrival before the rank can say that it took the batch.
            self._account.arrived(header.run, header.step, header.worker, slab.size)
            self._hand_over(header.run, run)
        return True

    def _hand_over(self, run_id: str, run: _Run) -> None:
        """Give the rank every batch whose turn it is; if order does not matter, that is any."""
        while (entry := run.waiting.pop(run.next_step, None)) is not None:
            header, slab, size = entry
            rank = run.rank
            new = slab.number not in rank.seen
            rank.seen.add(slab.number)
            rank.lent[slab.number] = slab
            rank.tell(
                m.Batch(
                    run=run_id,
                    step=run.next_step,
                    slab=slab.number,
                    size=size,
                    new=new,
                    content=header.content_bytes,
                ),
                slab.descriptor if new else None,
            )
            run.handed.add(run.next_step)
            run.next_step += 1

    # Ranks --------------------------------------------------------------------------------

    def _accept_ranks(self) -> None:
        for connection, _ in lines.accepted(self._ranks, "unix"):
            if _user_of(connection) != os.getuid():
                emit("stranger_refused", peer="unix", port="receiver", why="another user")
                connection.close()
                continue
            rank = _Rank(connection)
            self._attended.add(rank)
            threading.Thread(target=_send_all, args=(rank,), daemon=True).start()
            threading.Thread(target=self._attend_rank, args=(rank,), daemon=True).start()

    def _attend_rank(self, rank: _Rank) -> None:
        heard = lines.LineConnection(rank.connection)
        try:
            while (raw := heard.receive()) is not None:
                self._hear(rank, m.decode(raw))
        except ConnectionError:
            pass  # a rank that was killed
        except (WireError, OSError) as error:
            emit("rank_dropped", why=str(error)[:120])
        self._forget(rank)

    def _hear(self, rank: _Rank, message: m.Message) -> None:
        if isinstance(message, m.Release):
            with self._lock:
                for number in message.slabs:
                    self._take_back(rank, number)
            return
        if isinstance(message, m.Taken):
            self._account.taken(message.run, message.step)
        elif isinstance(message, m.Report):
            self._account.pass_on(message)
        elif isinstance(message, m.OpenRun):
            with self._lock:
                self._runs[message.run] = _Run(rank, message.in_order)
            self._account.open(message)
        elif isinstance(message, m.CloseRun):
            with self._lock:
                self._close_run(message.run)
            self._account.close(message.run)
        elif isinstance(message, m.Describe):
            with self._lock:
                self._asking.setdefault(message.dataset, []).append(rank)
            self._account.ask(message)

    def _take_back(self, rank: _Rank, number: int) -> None:
        if slab := rank.lent.pop(number, None):
            self._pool.give(slab)

    def _close_run(self, run_id: str) -> None:
        if run := self._runs.pop(run_id, None):
            for _, slab, _ in run.waiting.values():
                self._pool.give(slab)

    def _forget(self, rank: _Rank) -> None:
        """A rank is gone: its runs end, and its slabs can be used by others."""
        rank.outbox.put(None)
        with self._lock:
            runs = [run_id for run_id, run in self._runs.items() if run.rank is rank]
            for run_id in runs:
                self._close_run(run_id)
            for number in list(rank.lent):
                self._take_back(rank, number)
        for run_id in runs:
            self._account.close(run_id)
        self._attended.discard(rank)


def _send_all(rank: _Rank) -> None:
    """Send what is in a rank's outbox; a descriptor travels with the first byte of its line."""
    while (entry := rank.outbox.get()) is not None:
        message, descriptor = entry
        line = lines.encode(message.encode())
        try:
            if descriptor is not None:
                sent = socket.send_fds(rank.connection, [line], [descriptor])
                line = line[sent:]
            rank.connection.sendall(line)
        except OSError:
            break  # the rank is gone; its listener sees it, too
    rank.connection.close()


def _user_of(connection: socket.socket) -> int:
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
    return int(_PEER_CREDENTIALS.unpack(raw)[1])


def main() -> int:
    environment = Environment.read(paths_here())
    try:
        receiver = Receiver(environment, os.environ[RECEIVER_VARIABLE])
    except (DataError, OSError) as error:
        emit("receiver_failed", why=str(error))
        return 1

    def leave(_number: int, _frame: FrameType | None) -> None:
        threading.Thread(target=receiver.leave).start()

    signal.signal(CLOSE_SIGNAL, leave)
    receiver.serve()
    emit("receiver_failed", why="the dispatcher is gone")
    return 1


if __name__ == "__main__":
    code = main()
    os._exit(code)  # threads that wait on sockets have nothing to finish
