"""How the hosts of a job agree on its end: which host failed first, and that it is over.

The leader serves the board; every host joins it and keeps the connection for life.

    host -> leader    {"join": HOST}   {"ready": true}   {"done": true}   {"failed": {...}}
    leader -> host    {"ready": [...]}  the hosts that are
                      {"end": null}  all awaited hosts are done    {"end": {...}}  the first failure

Awaited are the train hosts, and those whose program leaves by itself. Ready are hosts whose program
the train hosts wait for.

A rank that dies makes its peers fail too, often sooner than its own death is noticed. So a report
that reads like the loss of a peer waits SETTLE seconds for a better one.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

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

    awaited: frozenset[str]
    _done: set[str] = field(default_factory=set)
    _echo: tuple[float, Failure] | None = None
    _end: End | None = None

    def done(self, host: str) -> None:
        self._done.add(host)
        if self._end is None and self._echo is None and self._done >= self.awaited:
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

    def end(self, now: float) -> End | None:
        """The end of the job, once it is decided."""
        if self._end is None and self._echo is not None and now - self._echo[0] >= SETTLE:
            self._end = End(self._echo[1])
        return self._end


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
        self._ready: frozenset[str] = frozenset()
        self._ended = threading.Event()
        self._end: End | None = None

    @property
    def end(self) -> End | None:
        """How the job ended, or None while it goes on."""
        return self._end

    @property
    def ready_hosts(self) -> frozenset[str]:
        """The hosts that have said that they are ready, as far as is known here."""
        return self._ready

    def learn_ready(self, hosts: Iterable[str]) -> None:
        """Hosts that are ready, in addition to those that are known."""
        self._ready |= frozenset(hosts)

    def ready(self) -> None:
        """What this host runs for the others is ready."""
        self._send({"ready": True})

    def done(self) -> None:
        """This host's part, which the job waits for, is complete."""
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
        """The leader's last word; None when the leader goes without it."""
        while (message := connection.receive()) is not None and "ready" in message:
            self.board.learn_ready(message["ready"])
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
        self._tally = Tally(environment.awaited_hosts)
        self._ready: set[str] = set()
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
            self._members.append((host, member))
        self._tell_ready()
        self._listen(member, host)

    def _listen(self, member: lines.LineConnection, host: str) -> None:
        while True:
            message = self._next(member)
            with self._lock:
                if message is None:
                    self._tally.lost(host, self._groups[host], time.monotonic())
                    return
                if "done" in message:
                    self._tally.done(host)
                elif "ready" in message:
                    self._ready.add(host)
                elif "failed" in message:
                    failure = Failure.from_message(message["failed"])
                    self._tally.failed(failure, time.monotonic())
            if "ready" in message:
                self._tell_ready()

    @staticmethod
    def _next(member: lines.LineConnection) -> dict[str, Any] | None:
        try:
            return member.receive()
        except (WireError, OSError):
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

    def _tell_ready(self) -> None:
        """Tell every host who is ready; they add it to what they know."""
        with self._lock:
            ready, members = sorted(self._ready), list(self._members)
        for _, member in members if ready else ():
            self._say(member, {"ready": ready})

    def _tell(self, member: lines.LineConnection, end: End | None) -> None:
        failure = end.failure if end else None
        self._say(member, {"end": failure and failure.to_message()})

    @staticmethod
    def _say(member: lines.LineConnection, message: dict[str, Any]) -> None:
        try:
            member.send(message)
        except OSError:
            return  # that host is gone, and needs no word any more
