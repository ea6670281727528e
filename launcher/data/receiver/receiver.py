"""The receiver process on a train host, which receives batches and delivers them to the ranks.

`python -m launcher.data.receiver` listens for workers on TCP, and on a Unix socket for ranks and
workers of its own host. It is a separate process because a receiving thread was measured to compete
with the training loop for the interpreter lock. This module handles the messages; `Arrivals`
receives the batches and `BatchBuffer` keeps them.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from types import FrameType

from launcher.data.control import Control
from launcher.data.control import messages as m
from launcher.data.metrics import report_regularly
from launcher.data.receiver import host_limits
from launcher.data.receiver.arrivals import Arrivals
from launcher.data.receiver.batch_buffer import BatchBuffer
from launcher.data.receiver.local_peers import LocalPeer, user_of
from launcher.data.receiver.progress_reporter import ProgressReporter
from launcher.errors import AuthenticationError, DataError, WireError
from launcher.runtime import (
    CLOSE_SIGNAL,
    RECEIVER_VARIABLE,
    Environment,
    emit,
    handshake,
    jsonl_socket,
    paths_here,
    use_batch_scheduling,
)


class Receiver:
    """Handles the messages of the dispatcher, the workers and the ranks of one train host."""

    def __init__(self, environment: Environment, socket_name: str) -> None:
        cluster, part = environment.cluster, environment.document.data
        self._host = cluster.host
        self._token = environment.token
        self._leaving = threading.Event()
        self._dismissed = threading.Event()
        self._lock = threading.Lock()  # for _asking
        self._asking: dict[str, list[LocalPeer]] = {}
        address = (cluster.address(cluster.host), environment.ports.receiver)
        budget = _prefetch_bytes(environment)
        self._reporter = ProgressReporter(cluster.host, address, budget)
        self._buffer = BatchBuffer(budget, self._reporter)
        self._arrivals = Arrivals(self._buffer, checksums=bool(part and part.checksums))
        self._workers = socket.create_server(
            (cluster.bind_address, environment.ports.receiver), backlog=1024
        )
        self._ranks = socket.socket(socket.AF_UNIX)
        self._ranks.bind(f"\0{socket_name}")  # an abstract name: no file to leave behind
        self._ranks.listen(128)
        self._control = Control(environment, self._reporter.registration)

    def serve(self) -> None:
        """Start the accepting threads; return if the dispatcher is gone before `leave`."""
        for duty in (self._accept_workers, self._accept_local_peers, self._report):
            threading.Thread(target=duty, daemon=True).start()
        report_regularly(self._report_metrics)
        self._follow_dispatcher()
        if self._leaving.is_set():
            threading.Event().wait()  # `leave` ends the process

    def leave(self, patience: float = 5.0) -> None:
        """Report the last events of the ranks, which have ended, then exit this process.

        `patience` allows for a restart of the dispatcher meanwhile.
        """
        self._leaving.set()
        deadline = time.monotonic() + patience
        while self._buffer.peers and time.monotonic() < deadline:
            time.sleep(0.01)
        self._report_metrics()  # the final metrics
        self._reporter.leave()
        self._dismissed.wait(max(0.0, deadline - time.monotonic()))
        self._control.close()
        os._exit(0)

    # The dispatcher -----------------------------------------------------------------------

    def _follow_dispatcher(self) -> None:
        while (message := self._control.receive()) is not None:
            if isinstance(message, m.Length):
                self._reporter.answered(message.dataset)
                with self._lock:
                    askers = self._asking.pop(message.dataset, [])
                for rank in askers:
                    rank.notify(message)
            elif isinstance(message, m.Close):
                self._dismissed.set()
            elif isinstance(message, m.RunFailed):
                self._buffer.notify(message.run, message)
            elif isinstance(message, m.Confirm) and self._buffer.is_read(message.run):
                self._reporter.confirm(message.run)

    def _report(self) -> None:
        """Send the events to the dispatcher as they occur."""
        while True:
            messages = self._reporter.wait_for_messages()
            # Every arrival causes a report, so a stalled worker cannot delay batches for long.
            self._buffer.deliver_held()
            for message in messages:
                self._control.send(message)

    def _report_metrics(self) -> None:
        figures, process = self._buffer.metrics(), str(os.getpid())
        self._control.send(
            m.Report(kind="receiver", of=self._host, process=process, figures=figures)
        )

    # Workers ------------------------------------------------------------------------------

    def _accept_workers(self) -> None:
        for connection, peer in jsonl_socket.accept_connections(self._workers, "receiver"):
            threading.Thread(
                target=self._serve_worker, args=(connection, peer), daemon=True
            ).start()

    def _serve_worker(self, connection: socket.socket, peer: tuple[str, int]) -> None:
        with connection:
            try:
                handshake.accept(connection, self._token)
                self._arrivals.receive_all(connection)
            except (AuthenticationError, WireError) as error:
                emit("connection_rejected", peer=peer[0], port="receiver", why=str(error)[:120])
            except OSError:
                return  # the worker died; the dispatcher notices too

    # Local peers --------------------------------------------------------------------------

    def _accept_local_peers(self) -> None:
        for connection, _ in jsonl_socket.accept_connections(self._ranks, "unix"):
            if user_of(connection) != os.getuid():
                emit("connection_rejected", peer="unix", port="receiver", why="another user")
                connection.close()
                continue
            peer = LocalPeer(connection)
            self._buffer.peers.add(peer)
            threading.Thread(target=peer.send_all, daemon=True).start()
            threading.Thread(target=self._serve_peer, args=(peer,), daemon=True).start()

    def _serve_peer(self, peer: LocalPeer) -> None:
        line_connection = jsonl_socket.LineConnection(peer.connection, polls=True)
        try:
            while (raw := line_connection.receive()) is not None:
                self._receive(peer, m.decode(raw))
        except ConnectionError:
            pass  # the process was killed
        except (WireError, OSError) as error:
            emit("local_peer_dropped", why=str(error)[:120])
        peer.end()
        for run_id in self._buffer.forget(peer):
            self._reporter.close(run_id)

    def _receive(self, peer: LocalPeer, message: m.Message) -> None:
        if isinstance(message, m.NeedSlab):
            self._buffer.lend(peer, message)
        elif isinstance(message, m.SlabFilled):
            self._buffer.store_filled(peer, message)
        else:
            self._receive_from_rank(peer, message)

    def _receive_from_rank(self, rank: LocalPeer, message: m.Message) -> None:
        """Handle a rank's message, most of which the dispatcher receives too."""
        if isinstance(message, m.Consumed):
            self._reporter.consumed(message.run, message.steps)
        elif isinstance(message, m.Report):
            self._reporter.forward_report(message)
        elif isinstance(message, m.OpenRun):
            self._buffer.open_run(message, rank)
            self._reporter.open(message)
        elif isinstance(message, m.CloseRun):
            self._buffer.close_run(message.run)
            self._reporter.close(message.run)
        elif isinstance(message, m.Describe):
            with self._lock:
                self._asking.setdefault(message.dataset, []).append(rank)
            self._reporter.ask(message)


def _prefetch_bytes(environment: Environment) -> int:
    return environment.document.data.prefetch_bytes if environment.document.data else 0


def main() -> int:
    """Run the receiver process; return its exit code."""
    environment = Environment.read(paths_here())
    use_batch_scheduling()
    try:
        host_limits.check_descriptors()
        host_limits.check_memory(_prefetch_bytes(environment), host_limits.memory_bytes())
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
