"""Job coordination: the hosts agree on when and how the job ends, and which host failed first.

The leader runs the server; every host connects to it and keeps the connection until the end.

    host -> leader    {"join": HOST}   {"ready": true}   {"done": true}   {"failed": {...}}
                      {"hung": {...}}  a rank hangs               {"doing": [...]}  rank activity
    leader -> host    {"ready": [...]}   the hosts that are ready
                      {"inquire": true}  to train hosts: what are your ranks doing?
                      {"end": null}  all awaited hosts are done    {"end": {...}}  the first failure

Awaited hosts are the train hosts and the hosts whose program exits by itself. Ready hosts are those
whose program the train hosts wait for.

A host that dies closes its connection. One that loses its network breaks it after lines.SILENCE
seconds. A train host that is cut off fails the job. A data host is not essential, since others take
over its work: the job continues without it, and the host exits because it no longer serves anyone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from launcher.errors import AuthenticationError, DataServiceUnavailable, WireError
from launcher.runtime import jsonl_socket
from launcher.runtime.coordination_server import note, serve
from launcher.runtime.environment import Environment
from launcher.runtime.event_log import emit
from launcher.runtime.failure_file import Failure
from launcher.runtime.hang_diagnosis import RankActivity
from launcher.runtime.outcome_decider import SETTLE, HostEnd, OutcomeDecider
from launcher.shared import Role


class JobCoordination:
    """One host's connection to the job coordination."""

    def __init__(
        self,
        send: Callable[[dict[str, Any]], None],
        everyone_knows: Callable[[], bool] = lambda: True,
    ) -> None:
        self._send = send
        #: On the leader, true once the end was sent to every host; elsewhere always true.
        self.everyone_knows = everyone_knows
        self._ready: frozenset[str] = frozenset()
        self._ended = threading.Event()
        self._end: HostEnd | None = None
        #: Set when the leader asks what this host's ranks are doing.
        self.inquires = False

    @property
    def end(self) -> HostEnd | None:
        """The job's end, or None while it is running."""
        return self._end

    @property
    def ready_hosts(self) -> frozenset[str]:
        """The hosts known here to have reported ready."""
        return self._ready

    def learn_ready(self, hosts: Iterable[str]) -> None:
        """Add hosts to those known to be ready."""
        self._ready |= frozenset(hosts)

    def ready(self) -> None:
        """Report that this host's program is ready for the other hosts."""
        self._send({"ready": True})

    def done(self) -> None:
        """Report that this host has completed its part, which the job waits for."""
        self._send({"done": True})

    def failed(self, failure: Failure) -> HostEnd:
        """Report a failure; return how the job ended, which may be another host's failure."""
        self._send({"failed": failure.to_message()})
        self._ended.wait(SETTLE + 5.0)
        return self._end or HostEnd(failure)

    def hung(self, report: Failure) -> None:
        """Report that a rank of this host hangs."""
        self._send({"hung": report.to_message()})

    def answer(self, doings: Sequence[RankActivity]) -> None:
        """Report what the ranks of this host are doing."""
        self._send({"doing": [doing.to_message() for doing in doings]})

    def close(self, end: HostEnd) -> None:
        """Set the job's end; later calls have no effect."""
        if self._end is None:
            self._end = end
            self._ended.set()


def join(environment: Environment) -> JobCoordination:
    """Join the job without waiting for other hosts; the leader also starts the server."""
    cluster = environment.cluster
    if len(cluster.hosts) == 1:
        return _solo(cluster.host)
    if cluster.is_leader:
        return _Member(environment, serve(environment)).board
    return _Member(environment).board


def _solo(host: str) -> JobCoordination:
    """Return the coordination of a single-host job, which decides by itself."""
    tally = OutcomeDecider(train_hosts=frozenset({host}), awaited=frozenset({host}))

    def decide(message: dict[str, Any]) -> None:
        if report := message.get("failed"):
            board.close(
                HostEnd(Failure.from_message(report))
            )  # no peers whose reports could matter
            return
        note(tally, host, message)
        board.inquires = tally.inquires
        if end := tally.end(time.monotonic()):
            board.close(end)

    board = JobCoordination(decide)
    return board


class _Member:
    """A host's connection to the leader, served by a thread."""

    def __init__(
        self, environment: Environment, everyone_knows: Callable[[], bool] = lambda: True
    ) -> None:
        self._environment = environment
        self._connection: jsonl_socket.LineConnection | None = None
        self._unsent: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self.board = JobCoordination(self._send, everyone_knows)
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
            connection = jsonl_socket.LineConnection(
                jsonl_socket.connect(
                    (cluster.address(cluster.leader), environment.ports.board),
                    environment.token,
                    patience=environment.document.start_timeout,
                    what=f"the leader {cluster.leader}",
                    is_told=True,
                )
            )
            with self._lock:
                self._connection = connection
                connection.send({"join": cluster.host})
                for unsent in self._unsent:
                    connection.send(unsent)
            message = self._hear_end(connection)
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
            self.board.close(HostEnd(report and Failure.from_message(report)))

    def _hear_end(self, connection: jsonl_socket.LineConnection) -> dict[str, Any] | None:
        """Receive until the end arrives; return None if the leader disconnects without one."""
        while (message := connection.receive()) is not None and "end" not in message:
            if "ready" in message:
                self.board.learn_ready(message["ready"])
            else:
                self.board.inquires = True
        return message

    def _leader_lost(self, why: str = "") -> None:
        cluster = self._environment.cluster
        self.board.close(
            HostEnd(
                Failure(
                    host=cluster.leader,
                    group=cluster.train_group.name,
                    cause="the leader died" if not why else f"no word from the leader: {why}",
                )
            )
        )

    def _leader_silent(self, error: OSError) -> None:
        """End the job here after a lost network: on a train host, that is a failure."""
        cluster = self._environment.cluster
        emit("leader_silent", leader=cluster.leader, why=str(error))
        if cluster.group.role is not Role.TRAIN:
            self.board.close(HostEnd())
            return
        cause = f"the leader {cluster.leader} does not answer any more: {error.strerror}"
        self.board.close(HostEnd(Failure(host=cluster.host, group=cluster.group.name, cause=cause)))
