"""How the hosts of a job agree on its end: which host failed first, and that it is over.

The leader serves the board; every host joins it and keeps the connection for life.

    host -> leader    {"join": HOST}   {"done": true}   {"failed": {...}}
                      {"hung": {...}}  a rank waits for ever       {"doing": [...]}  what ranks do
    leader -> host    {"end": null}  all train hosts are done      {"end": {...}}  the first failure
                      {"inquire": true}  to train hosts: what are your ranks doing?
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from launcher.contract import HostFailure
from launcher.errors import AuthenticationError, DataServiceUnavailable, WireError
from launcher.runtime import handshake, lines
from launcher.runtime.environment import Environment
from launcher.runtime.events import emit
from launcher.runtime.failure import Failure
from launcher.runtime.inquiry import Doing
from launcher.runtime.tally import SETTLE, End, Tally


class Board:
    """One host's place on the board."""

    def __init__(
        self,
        send: Callable[[dict[str, Any]], None],
        everyone_knows: Callable[[], bool] = lambda: True,
    ) -> None:
        self._send = send
        #: On the leader, whether every host has been told the end; elsewhere always true.
        self.everyone_knows = everyone_knows
        self._ended = threading.Event()
        self._end: End | None = None
        #: Whether the leader wants to know what this host's ranks are doing.
        self.inquires = False

    @property
    def end(self) -> End | None:
        """How the job ended, or None while it goes on."""
        return self._end

    def done(self) -> None:
        """This train host's part is complete."""
        self._send({"done": True})

    def failed(self, failure: Failure) -> End:
        """Report a failure; returns how the job ended, which may be another host's failure."""
        self._send({"failed": failure.to_message()})
        self._ended.wait(SETTLE + 5.0)
        return self._end or End(failure)

    def hung(self, report: Failure) -> None:
        """A rank of this host waits for ever."""
        self._send({"hung": report.to_message()})

    def answer(self, doings: Sequence[Doing]) -> None:
        """What the ranks of this host are doing."""
        self._send({"doing": [doing.to_message() for doing in doings]})

    def close(self, end: End) -> None:
        """Settle the end, once."""
        if self._end is None:
            self._end = end
            self._ended.set()


def join(environment: Environment) -> Board:
    """Take this host's place; the leader starts the board. Returns without waiting for others."""
    cluster = environment.cluster
    if len(cluster.hosts) == 1:
        return _solo(cluster.host)
    if cluster.is_leader:
        return _Member(environment, serve(environment)).board
    return _Member(environment).board


def _solo(host: str) -> Board:
    """The board of a job with one host, which decides alone."""
    tally = Tally(frozenset({host}))

    def decide(message: dict[str, Any]) -> None:
        if report := message.get("failed"):
            board.close(End(Failure.from_message(report)))  # no peer's report is to be waited for
            return
        _note(tally, host, message)
        board.inquires = tally.inquires
        if end := tally.end(time.monotonic()):
            board.close(end)

    board = Board(decide)
    return board


def _note(tally: Tally, host: str, message: dict[str, Any]) -> None:
    """Enter what a host has said."""
    now = time.monotonic()
    if "done" in message:
        tally.done(host)
    elif "failed" in message:
        tally.failed(Failure.from_message(message["failed"]), now)
    elif "hung" in message:
        tally.hung(Failure.from_message(message["hung"]), now)
    elif "doing" in message:
        tally.answered(host, [Doing.from_message(each) for each in message["doing"]])


class _Member:
    """A host's connection to the leader, kept by a thread."""

    def __init__(
        self, environment: Environment, everyone_knows: Callable[[], bool] = lambda: True
    ) -> None:
        self._environment = environment
        self._connection: lines.LineConnection | None = None
        self._unsent: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self.board = Board(self._send, everyone_knows)
        threading.Thread(target=self._follow, name="board", daemon=True).start()

    def _send(self, message: dict[str, Any]) -> None:
        with self._lock:
            if self._connection is None:
                self._unsent.append(message)
                return
            try:
                self._connection.send(message)
            except OSError:
                self._leader_lost()

    def _follow(self) -> None:
        environment, cluster = self._environment, self._environment.cluster
        try:
            connection = lines.LineConnection(
                lines.connect(
                    (cluster.address(cluster.leader), environment.ports.board),
                    environment.token,
                    patience=environment.document.start_timeout,
                    what=f"the leader {cluster.leader}",
                )
            )
            with self._lock:
                self._connection = connection
                connection.send({"join": cluster.host})
                for unsent in self._unsent:
                    connection.send(unsent)
            message = self._hear_end(connection)
        except (AuthenticationError, DataServiceUnavailable, WireError, OSError) as error:
            self._leader_lost(str(error))
            return
        if message is None:
            self._leader_lost()
        else:
            report = message["end"]
            self.board.close(End(report and Failure.from_message(report)))

    def _hear_end(self, connection: lines.LineConnection) -> dict[str, Any] | None:
        """The leader's last message; None when it goes without one."""
        while (message := connection.receive()) is not None and "end" not in message:
            self.board.inquires = True
        return message

    def _leader_lost(self, why: str = "") -> None:
        cluster = self._environment.cluster
        self.board.close(
            End(
                Failure(
                    host=cluster.leader,
                    group=cluster.train_group.name,
                    cause="the leader died" if not why else f"no word from the leader: {why}",
                )
            )
        )


def serve(environment: Environment) -> Callable[[], bool]:
    """Start the leader's board in threads of this process; returns whether everyone knows."""
    address = (environment.cluster.bind_address, environment.ports.board)
    server = _Server(environment, socket.create_server(address, backlog=1024))
    server.start()
    return server.everyone_knows


class _Server:
    def __init__(self, environment: Environment, listener: socket.socket) -> None:
        self._token = environment.token
        self._groups = {
            host: group.name for group in environment.cluster.groups for host in group.hosts
        }
        self._listener = listener
        self._lock = threading.Lock()
        tolerant = environment.host_failure is HostFailure.TOLERATE
        self._tally = Tally(
            frozenset(environment.cluster.train_group.hosts), self._groups if tolerant else {}
        )
        self._members: list[tuple[str, lines.LineConnection]] = []
        self._told: set[str] = set()
        self._asked: set[str] = set()

    def start(self) -> None:
        for work in (self._accept, self._announce):
            threading.Thread(target=work, name="board-server", daemon=True).start()

    def _accept(self) -> None:
        for connection, peer in lines.accepted(self._listener, "board"):
            threading.Thread(target=self._attend, args=(connection, peer), daemon=True).start()

    def _attend(self, connection: socket.socket, peer: tuple[str, int]) -> None:
        try:
            handshake.greet(connection, self._token)
            member = lines.LineConnection(connection)
            first = member.receive()
        except (AuthenticationError, WireError, OSError) as error:
            emit("stranger_refused", peer=peer[0], port="board", why=str(error))
            connection.close()
            return
        host = (first or {}).get("join")
        if host not in self._groups:
            connection.close()
            return
        emit("host_joined", member=host)
        with self._lock:
            self._members.append((host, member))
        self._listen(member, host)

    def _listen(self, member: lines.LineConnection, host: str) -> None:
        while True:
            message = self._next(member)
            with self._lock:
                if message is None:
                    self._tally.lost(host, self._groups[host], time.monotonic())
                    return
                _note(self._tally, host, message)

    @staticmethod
    def _next(member: lines.LineConnection) -> dict[str, Any] | None:
        try:
            return member.receive()
        except (WireError, OSError):
            return None

    def _announce(self) -> None:
        """Tell every host the end, also those that join after it; before it, ask what hangs."""
        while True:
            with self._lock:
                end = self._tally.end(time.monotonic())
                self._inquire()
                members, self._members = (self._members, []) if end else ([], self._members)
            for host, member in members:
                self._tell(member, end)
                self._told.add(host)
            time.sleep(0.02)

    def _inquire(self) -> None:
        if not self._tally.inquires:
            return
        for host, member in self._members:
            if host in self._tally.train_hosts and host not in self._asked:
                self._asked.add(host)
                with contextlib.suppress(OSError):  # a host that is gone; its listener sees it
                    member.send({"inquire": True})

    def everyone_knows(self) -> bool:
        """Whether every host has been told the end."""
        return self._told >= set(self._groups)

    @staticmethod
    def _tell(member: lines.LineConnection, end: End | None) -> None:
        failure = end.failure if end else None
        try:
            member.send({"end": failure and failure.to_message()})
        except OSError:
            return  # that host is gone, and needs no word any more
