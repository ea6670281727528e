"""Job coordination: the hosts agree on when and how the job ends, and which host failed first.

The leader runs the server; every host connects to it and keeps the connection until the end.

    host -> leader    {"join": HOST}      first message
                      {"ready": true}     the host's program is ready
                      {"done": true}      the host has completed its part
                      {"failed": {...}}   a Failure
                      {"hung": {...}}     a rank hangs: a Failure
                      {"left": {...}}     a rank ended with 0: the Failure that it may cause
                      {"activity": [...]} what each rank is doing: RankActivity
                      {"versions": {...}} of Python and of packages
                      {"alive": true}     every second
    leader -> host    {"ready": [...]}    the hosts that are ready
                      {"report_activity": true}  to train hosts: report what your ranks are doing
                      {"alive": true}     every 2 s
                      {"end": null}       all awaited hosts are done
                      {"end": {...}}      the first Failure

Awaited hosts are the train hosts (in a job without them, those of the script group that leads it)
and the hosts whose program exits by itself. Ready hosts are those
whose program the train hosts wait for.

A host that dies closes its connection. If a host loses its network, the connection breaks after
jsonl_socket.KEEPALIVE_TIMEOUT seconds. A train host that is cut off fails the job. A data host that
is cut off does not: other data hosts take over its work, and the host exits, since it no longer
serves anyone. A frozen host (SIGSTOP) keeps its connection, and is known by its silence.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from launcher.errors import AuthenticationError, DataServiceUnavailable, WireError
from launcher.runtime import jsonl_socket
from launcher.runtime.end.coordination_server import record_report, serve
from launcher.runtime.end.failure_file import Failure
from launcher.runtime.end.hang_diagnosis import RankActivity
from launcher.runtime.end.host_silence import ENDED_AFTER, HEARTBEAT_INTERVAL, HostSilence, cause_of
from launcher.runtime.end.outcome_decider import SETTLE, JobOutcome, OutcomeDecider
from launcher.runtime.host.environment import Environment
from launcher.runtime.host.event_log import emit
from launcher.shared import NO_ANSWER, Role


class JobCoordination:
    """One host's connection to the job coordination."""

    def __init__(
        self,
        send: Callable[[dict[str, Any]], None],
        is_end_sent: Callable[[], bool] = lambda: True,
        silent_leader: Callable[[], Failure | None] = lambda: None,
    ) -> None:
        self._send = send
        self._silent_leader = silent_leader
        #: On the leader, true once the end was sent to every host; elsewhere always true.
        self.is_end_sent = is_end_sent
        #: True once this host has joined the leader; before, no other host can need it.
        self.has_joined = False
        self._ready_hosts: frozenset[str] = frozenset()
        self._ended = threading.Event()
        self._outcome: JobOutcome | None = None
        #: Set when the leader asks what this host's ranks are doing.
        self.is_activity_requested = False

    @property
    def outcome(self) -> JobOutcome | None:
        """The job's outcome, or None while it is running."""
        return self._outcome

    @property
    def ready_hosts(self) -> frozenset[str]:
        """The hosts that have reported ready, as far as this host has been notified."""
        return self._ready_hosts

    def add_ready_hosts(self, hosts: Iterable[str]) -> None:
        """Add hosts to those that are ready."""
        self._ready_hosts |= frozenset(hosts)

    def report_ready(self) -> None:
        """Report that this host's program is ready for the other hosts."""
        self._send({"ready": True})

    def report_done(self) -> None:
        """Report that this host has completed its part, which the job waits for."""
        self._send({"done": True})

    def report_failure(self, failure: Failure) -> JobOutcome:
        """Report a failure; return the job's outcome, which may be another host's failure.

        A leader that is silent gives no answer: what ended without it, such as a receiver of data,
        is its failure then. That of a rank is the rank's, unless it reads like the loss of a peer.
        """
        self._send({"failed": failure.to_message()})
        self._ended.wait(SETTLE + 5.0)
        if self._outcome is not None:
            return self._outcome
        is_own = failure.rank is not None and not failure.is_secondary
        if not is_own and (silent := self._silent_leader()):
            return JobOutcome(replace(silent, detail=str(failure)))
        return JobOutcome(failure)

    def report_hang(self, failure: Failure) -> None:
        """Report that a rank of this host hangs."""
        self._send({"hung": failure.to_message()})

    def report_silent_exit(self, failure: Failure) -> None:
        """Report that a rank of this host ended with 0, which others may fail of."""
        self._send({"left": failure.to_message()})

    def report_activity(self, activities: Sequence[RankActivity]) -> None:
        """Report what the ranks of this host are doing."""
        self._send({"activity": [activity.to_message() for activity in activities]})

    def report_versions(self, versions: Mapping[str, str]) -> None:
        """Report the versions of Python and of the packages on this host."""
        self._send({"versions": dict(versions)})

    def set_outcome(self, outcome: JobOutcome) -> None:
        """Set the job's outcome; later calls have no effect."""
        if self._outcome is None:
            self._outcome = outcome
            self._ended.set()


def join(environment: Environment) -> JobCoordination:
    """Join the job without waiting for other hosts; the leader also starts the server."""
    cluster = environment.cluster
    if len(cluster.hosts) == 1:
        return _single_host(cluster.host)
    if cluster.is_leader:
        return _LeaderConnection(environment, serve(environment)).coordination
    return _LeaderConnection(environment).coordination


def _single_host(host: str) -> JobCoordination:
    """Return the coordination of a single-host job, which decides by itself."""
    decider = OutcomeDecider(train_hosts=frozenset({host}), awaited=frozenset({host}))

    def decide(message: dict[str, Any]) -> None:
        if report := message.get("failed"):  # there are no peers whose reports could matter
            failure = Failure.from_message(report)
            if failure.is_secondary:
                failure = decider.caused_by_silent_exit(failure)
            coordination.set_outcome(JobOutcome(failure))
            return
        record_report(decider, host, message)
        coordination.is_activity_requested = decider.needs_activity
        if outcome := decider.outcome(time.monotonic()):
            coordination.set_outcome(outcome)

    coordination = JobCoordination(decide)
    return coordination


class _LeaderConnection:
    """A host's connection to the leader, served by a thread."""

    def __init__(
        self, environment: Environment, is_end_sent: Callable[[], bool] = lambda: True
    ) -> None:
        self._environment = environment
        self._connection: jsonl_socket.LineConnection | None = None
        self._unsent: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._silence = HostSilence()
        self.coordination = JobCoordination(self._send, is_end_sent, self._silent_leader)
        threading.Thread(target=self._run, name="coordination", daemon=True).start()

    def _send(self, message: dict[str, Any]) -> None:
        with self._lock:
            if self._connection is None:
                self._unsent.append(message)
                return
            try:
                self._connection.send(message)
            except OSError:
                self._leader_lost()

    def _run(self) -> None:
        try:
            message = self._receive_end(self._connect())
        except (AuthenticationError, DataServiceUnavailable, WireError) as error:
            self._leader_lost(str(error))
            return
        except ConnectionResetError:  # it died with lines of ours unread
            self._leader_lost()
            return
        except OSError as error:
            self._leader_unreachable(error)
            return
        if message is None:
            self._leader_lost()
        else:
            report = message["end"]
            self.coordination.set_outcome(JobOutcome(report and Failure.from_message(report)))

    def _connect(self) -> jsonl_socket.LineConnection:
        """Connect to the leader, join, and send what this host has reported so far."""
        environment, cluster = self._environment, self._environment.cluster
        connection = jsonl_socket.LineConnection(
            jsonl_socket.connect(
                (cluster.address(cluster.leader), environment.ports.coordination),
                environment.token,
                timeout=environment.document.start_timeout,
                peer=f"the leader {cluster.leader}",
                logs_waiting=True,
            )
        )
        with self._lock:
            self._connection = connection
            connection.send({"join": cluster.host})
            for unsent in self._unsent:
                connection.send(unsent)
            self.coordination.has_joined = True
        self._silence.record(cluster.leader, time.monotonic())
        threading.Thread(
            target=self._send_heartbeats, name="coordination-heartbeats", daemon=True
        ).start()
        return connection

    def _send_heartbeats(self) -> None:
        """Send a line in each interval until the end, and end the job if the leader is frozen."""
        while self.coordination.outcome is None:
            now = time.monotonic()
            for host, seconds in self._silence.look(now):
                emit("host_silent", member=host, seconds=round(seconds))
            if self._silence.frozen(now):  # on any host: no other one might report it
                self.coordination.set_outcome(JobOutcome(self._failure_of_leader(ENDED_AFTER)))
            self._send({"alive": True})
            time.sleep(HEARTBEAT_INTERVAL / 2)

    def _receive_end(self, connection: jsonl_socket.LineConnection) -> dict[str, Any] | None:
        """Receive until the end arrives; return None if the leader disconnects without one."""
        leader = self._environment.cluster.leader
        while (message := connection.receive()) is not None and "end" not in message:
            self._silence.record(leader, time.monotonic())
            if "ready" in message:
                self.coordination.add_ready_hosts(message["ready"])
            elif "report_activity" in message:
                self.coordination.is_activity_requested = True
        return message

    def _leader_lost(self, why: str = "") -> None:
        cluster = self._environment.cluster
        cause = f"the leader cannot be reached: {why}" if why else "the leader died"
        self._fail(cluster.leader, cluster.train_group.name, cause)

    def _silent_leader(self) -> Failure | None:
        """Return the failure of the leader if it has sent nothing for seconds."""
        leader = self._environment.cluster.leader
        if not self._silence.is_silent(leader):
            return None
        return self._failure_of_leader(self._silence.seconds(leader, time.monotonic()))

    def _failure_of_leader(self, seconds: float) -> Failure:
        cluster = self._environment.cluster
        return Failure(
            host=cluster.leader,
            group=cluster.train_group.name,
            cause=cause_of(seconds),
            witness=cluster.host,
        )

    def _leader_unreachable(self, error: OSError) -> None:
        """End the job here after the network was lost; on a train host, that is a failure."""
        cluster = self._environment.cluster
        emit("leader_unreachable", leader=cluster.leader, why=str(error))
        if cluster.group.role not in (Role.TRAIN, Role.SCRIPT):
            self.coordination.set_outcome(JobOutcome())
            return
        cause = f"the leader {cluster.leader} {NO_ANSWER}: {error.strerror}"
        self._fail(cluster.host, cluster.group.name, cause)

    def _fail(self, host: str, group: str, cause: str) -> None:
        self.coordination.set_outcome(JobOutcome(Failure(host=host, group=group, cause=cause)))
