"""The leader's side of job coordination: it collects every host's reports and announces the end."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from launcher.errors import AuthenticationError, WireError
from launcher.runtime import handshake, jsonl_socket
from launcher.runtime.environment import Environment
from launcher.runtime.event_log import emit
from launcher.runtime.failure_file import Failure
from launcher.runtime.hang_diagnosis import RankActivity
from launcher.runtime.outcome_decider import HostEnd, OutcomeDecider
from launcher.shared import HostFailure

#: Seconds between two polls of the outcome, which also changes with time. A report triggers a poll
#: at once.
_LOOK = 0.2


def note(tally: OutcomeDecider, host: str, message: dict[str, Any]) -> None:
    """Record a host's report in the outcome decider."""
    now = time.monotonic()
    if "done" in message:
        tally.done(host)
    elif "failed" in message:
        tally.failed(Failure.from_message(message["failed"]), now)
    elif "hung" in message:
        tally.hung(Failure.from_message(message["hung"]), now)
    elif "doing" in message:
        tally.answered(host, [RankActivity.from_message(each) for each in message["doing"]])


def serve(environment: Environment) -> Callable[[], bool]:
    """Start the coordination server in threads; return a check that every host knows the end."""
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
        self._news = threading.Event()
        cluster = environment.cluster
        tolerant = environment.host_failure is HostFailure.TOLERATE
        self._tally = OutcomeDecider(
            train_hosts=frozenset(cluster.train_group.hosts),
            awaited=environment.awaited_hosts,
            train_group=cluster.train_group.name,
            leader=cluster.leader,
            tolerant_groups=self._groups if tolerant else {},
        )
        self._ready: set[str] = set()
        self._members: list[tuple[str, jsonl_socket.LineConnection]] = []
        self._told: set[str] = set()
        self._asked: set[str] = set()

    def start(self) -> None:
        for work in (self._accept, self._announce):
            threading.Thread(target=work, name="board-server", daemon=True).start()

    def _accept(self) -> None:
        for connection, peer in jsonl_socket.accepted(self._listener, "board"):
            threading.Thread(target=self._attend, args=(connection, peer), daemon=True).start()

    def _attend(self, connection: socket.socket, peer: tuple[str, int]) -> None:
        try:
            handshake.greet(connection, self._token)
            member = jsonl_socket.LineConnection(connection)
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
        self._news.set()
        self._tell_ready()
        self._listen(member, host)

    def _listen(self, member: jsonl_socket.LineConnection, host: str) -> None:
        while True:
            try:
                message = self._next(member)
            except OSError as error:
                emit("host_silent", member=host, why=str(error))
                with self._lock:
                    self._tally.silent(host, time.monotonic())
                return
            if message is None:
                with self._lock:
                    self._tally.lost(host, self._groups[host], time.monotonic())
                return
            self._hear(host, message)

    def _hear(self, host: str, message: dict[str, Any]) -> None:
        with self._lock:
            if "ready" in message:
                self._ready.add(host)
            else:
                note(self._tally, host, message)
        self._news.set()
        if "ready" in message:
            self._tell_ready()

    @staticmethod
    def _next(member: jsonl_socket.LineConnection) -> dict[str, Any] | None:
        try:
            return member.receive()
        except WireError:
            return None

    def _announce(self) -> None:
        """Send the end to every host, also to those that join later; before it, ask about hangs."""
        while True:
            self._news.clear()
            with self._lock:
                end = self._tally.end(time.monotonic())
                self._inquire()
                members, self._members = (self._members, []) if end else ([], self._members)
            for host, member in members:
                self._tell(member, end)
                self._told.add(host)
            self._news.wait(_LOOK)

    def _inquire(self) -> None:
        if not self._tally.inquires:
            return
        for host, member in self._members:
            if host in self._tally.train_hosts and host not in self._asked:
                self._asked.add(host)
                self._say(member, {"inquire": True})

    def everyone_knows(self) -> bool:
        """Return true if the end was sent to every host."""
        return self._told >= set(self._groups)

    def _tell_ready(self) -> None:
        """Send the list of ready hosts to every host; receivers add it to what they have."""
        with self._lock:
            ready, members = sorted(self._ready), list(self._members)
        for _, member in members if ready else ():
            self._say(member, {"ready": ready})

    def _tell(self, member: jsonl_socket.LineConnection, end: HostEnd | None) -> None:
        failure = end.failure if end else None
        self._say(member, {"end": failure and failure.to_message()})

    @staticmethod
    def _say(member: jsonl_socket.LineConnection, message: dict[str, Any]) -> None:
        try:
            member.send(message)
        except OSError:
            return  # that host is gone and needs no message
