"""How the hosts of a job agree on its end: which host failed first, and that it is over.

The leader serves the board; every host joins it and keeps the connection for life.

    host -> leader    {"join": HOST}   {"done": true}   {"failed": {...}}
    leader -> host    {"end": null}  all train hosts are done      {"end": {...}}  the first failure

A rank that dies makes its peers fail too, often sooner than its own death is noticed. So a report
that reads like the loss of a peer waits SETTLE seconds for a better one.

A host that dies ends its connection; one that is cut off from the network breaks it, after
lines.SILENCE seconds. A train host that is cut off fails the job. A data host is not needed, as
others do its work: the job goes on without it, and it leaves, since it serves nobody any more.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from launcher.contract import Role
from launcher.errors import AuthenticationError, DataServiceUnavailable, WireError
from launcher.runtime import handshake, lines
from launcher.runtime.environment import Environment
from launcher.runtime.events import emit
from launcher.runtime.failure import Failure

#: Seconds that a report of a lost peer waits for the report of the cause.
SETTLE = 3.0


@dataclass(frozen=True)
class End:
    """How the job ended: with the failure that came first, or well."""

    failure: Failure | None = None


@dataclass
class Tally:
    """What the hosts have reported; decides on the end. Pure: time is passed in."""

    train_hosts: frozenset[str]
    group: str = ""
    leader: str = ""
    _joined: set[str] = field(default_factory=set)
    _done: set[str] = field(default_factory=set)
    _silent: dict[str, float] = field(default_factory=dict)
    _echo: tuple[float, Failure] | None = None
    _end: End | None = None

    def joined(self, host: str) -> None:
        self._joined.add(host)

    def done(self, host: str) -> None:
        self._done.add(host)
        if self._end is None and self._echo is None and self._done >= self.train_hosts:
            self._end = End()

    def failed(self, failure: Failure, now: float) -> None:
        if self._end is not None:
            return
        if not failure.is_echo:
            self._end = End(failure)
        elif self._echo is None:
            self._echo = (now, failure)

    def lost(self, host: str, group: str, now: float) -> None:
        """A host's connection ended; before its word, that is a failure of its own."""
        if host not in self._done:
            self.failed(Failure(host=host, group=group, cause="the host died"), now)

    def silent(self, host: str, now: float) -> None:
        """A host's connection broke without an end: it is cut off, or the leader is."""
        self._silent.setdefault(host, now)

    def end(self, now: float) -> End | None:
        """The end of the job, once it is decided."""
        if self._end is None and (cut_off := self._cut_off(now)):
            self._end = End(cut_off)
        if self._end is None and self._echo is not None and now - self._echo[0] >= SETTLE:
            self._end = End(self._echo[1])
        return self._end

    def _cut_off(self, now: float) -> Failure | None:
        """Which train host is cut off: the first that is silent, or the leader from all others."""
        needed = self.train_hosts - self._done
        silent = [host for host, since in self._silent.items() if now - since >= SETTLE]
        missed = [host for host in silent if host in needed]
        if not missed:
            return None
        others = self._joined - {self.leader}
        alone = len(others) > 1 and others <= self._silent.keys()
        return Failure(
            host=self.leader if alone else missed[0],
            group=self.group,
            cause=f"{'no other host answers' if alone else 'it does not answer'} any more: "
            "its network is cut, or the instance is lost",
            witness=self.leader,
        )


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

    def close(self, end: End) -> None:
        """Settle the end, once."""
        if self._end is None:
            self._end = end
            self._ended.set()


def join(environment: Environment) -> Board:
    """Take this host's place; the leader starts the board. Returns without waiting for others."""
    cluster = environment.cluster
    if len(cluster.hosts) == 1:
        return _solo()
    if cluster.is_leader:
        return _Member(environment, serve(environment)).board
    return _Member(environment).board


def _solo() -> Board:
    """The board of a job with one host, which decides alone."""

    def decide(message: dict[str, Any]) -> None:
        report = message.get("failed")
        board.close(End(report and Failure.from_message(report)))

    board = Board(decide)
    return board


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
            message = connection.receive()
        except (AuthenticationError, DataServiceUnavailable, WireError) as error:
            self._leader_lost(str(error))
            return
        except OSError as error:
            self._leader_silent(error)
            return
        if message is None:
            self._leader_lost()
        else:
            report = message["end"]
            self.board.close(End(report and Failure.from_message(report)))

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

    def _leader_silent(self, error: OSError) -> None:
        """This host, or the leader, is cut off: who is a train host has failed."""
        cluster = self._environment.cluster
        emit("leader_silent", leader=cluster.leader, why=str(error))
        if cluster.group.role is not Role.TRAIN:
            self.board.close(End())
            return
        cause = f"the leader {cluster.leader} does not answer any more: {error.strerror}"
        self.board.close(End(Failure(host=cluster.host, group=cluster.group.name, cause=cause)))


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
        cluster = environment.cluster
        self._tally = Tally(
            frozenset(cluster.train_group.hosts),
            group=cluster.train_group.name,
            leader=cluster.leader,
        )
        self._members: list[tuple[str, lines.LineConnection]] = []
        self._told: set[str] = set()

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
            self._tally.joined(host)
            self._members.append((host, member))
        self._listen(member, host)

    def _listen(self, member: lines.LineConnection, host: str) -> None:
        while True:
            try:
                message = self._next(member)
            except OSError as error:
                emit("host_silent", member=host, why=str(error))
                with self._lock:
                    self._tally.silent(host, time.monotonic())
                return
            with self._lock:
                if message is None:
                    self._tally.lost(host, self._groups[host], time.monotonic())
                    return
                if "done" in message:
                    self._tally.done(host)
                elif "failed" in message:
                    failure = Failure.from_message(message["failed"])
                    self._tally.failed(failure, time.monotonic())

    @staticmethod
    def _next(member: lines.LineConnection) -> dict[str, Any] | None:
        try:
            return member.receive()
        except WireError:
            return None

    def _announce(self) -> None:
        """Tell every host the end, also those that join after it."""
        while True:
            with self._lock:
                end = self._tally.end(time.monotonic())
                members, self._members = (self._members, []) if end else ([], self._members)
            for host, member in members:
                self._tell(member, end)
                self._told.add(host)
            time.sleep(0.02)

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
