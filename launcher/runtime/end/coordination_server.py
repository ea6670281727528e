"""The leader's side of job coordination: it collects every host's reports and sends the end."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from launcher.errors import AuthenticationError, WireError
from launcher.runtime import handshake, jsonl_socket
from launcher.runtime.end.failure_file import Failure
from launcher.runtime.end.hang_diagnosis import RankActivity
from launcher.runtime.end.host_silence import HEARTBEAT_INTERVAL, HostSilence
from launcher.runtime.end.outcome_decider import OutcomeDecider
from launcher.runtime.host.cluster import Group, in_numeric_order
from launcher.runtime.host.environment import Environment
from launcher.runtime.host.event_log import emit
from launcher.shared import HostFailure, Launch, Role

#: Seconds between two polls of the outcome, which also changes with time. A report triggers a poll
#: at once.
_POLL = 0.2


def record_report(decider: OutcomeDecider, host: str, message: dict[str, Any]) -> None:
    """Record a host's report in the outcome decider."""
    now = time.monotonic()
    if "done" in message:
        decider.record_done(host)
    elif "failed" in message:
        decider.record_failure(Failure.from_message(message["failed"]), now)
    elif "hung" in message:
        decider.record_hang(Failure.from_message(message["hung"]), now)
    elif "left" in message:
        decider.record_silent_exit(Failure.from_message(message["left"]))
    elif "activity" in message:
        activities = [RankActivity.from_message(each) for each in message["activity"]]
        decider.record_activity(host, activities)


def serve(environment: Environment) -> Callable[[], bool]:
    """Start the coordination server in threads; return what tells if the end was sent to all."""
    address = (environment.cluster.bind_address, environment.ports.coordination)
    server = _Server(environment, socket.create_server(address, backlog=1024))
    server.start()
    return server.is_end_sent


class _Server:
    def __init__(self, environment: Environment, listener: socket.socket) -> None:
        self._token = environment.token
        self._groups = {
            host: group.name for group in environment.cluster.groups for host in group.hosts
        }
        self._listener = listener
        self._lock = threading.Lock()
        self._changed = threading.Event()
        cluster = environment.cluster
        tolerant = environment.host_failure is HostFailure.TOLERATE
        self._decider = OutcomeDecider(
            train_hosts=frozenset(cluster.train_group.hosts),
            awaited=environment.awaited_hosts,
            train_group=cluster.train_group.name,
            leader=cluster.leader,
            tolerant_groups=self._groups if tolerant else {},
        )
        self._versions = VersionSkew(
            groups=self._groups, roles={group.name: group.role for group in cluster.groups}
        )
        self._wait_notice = WaitNotice(environment)
        self._silence = HostSilence()
        self._start_timeout = environment.document.start_timeout
        self._started = time.monotonic()
        self._next_heartbeat = 0.0
        self._ready: set[str] = set()
        self._members: list[tuple[str, jsonl_socket.LineConnection]] = []
        self._end_sent: set[str] = set()
        self._activity_requested: set[str] = set()

    def start(self) -> None:
        for loop in (self._accept, self._send_end):
            threading.Thread(target=loop, name="coordination-server", daemon=True).start()

    def _accept(self) -> None:
        for connection, peer in jsonl_socket.accept_connections(self._listener, "coordination"):
            threading.Thread(target=self._serve, args=(connection, peer), daemon=True).start()

    def _serve(self, connection: socket.socket, peer: tuple[str, int]) -> None:
        try:
            handshake.accept(connection, self._token)
            member = jsonl_socket.LineConnection(connection)
            first = member.receive()
        except (AuthenticationError, WireError, OSError) as error:
            emit("connection_rejected", peer=peer[0], port="coordination", why=str(error))
            connection.close()
            return
        host = (first or {}).get("join")
        if host not in self._groups:
            connection.close()
            return
        emit("host_joined", member=host)
        with self._lock:
            self._decider.record_join(host)
            self._silence.record(host, time.monotonic())
            self._members.append((host, member))
        self._changed.set()
        self._send_ready()
        self._receive_reports(member, host)

    def _receive_reports(self, member: jsonl_socket.LineConnection, host: str) -> None:
        while True:
            try:
                message = self._receive(member)
            except OSError as error:
                emit("host_unreachable", member=host, why=str(error))
                with self._lock:
                    self._silence.forget(host)
                    self._decider.record_unreachable(host, time.monotonic())
                return
            if message is None:
                with self._lock:
                    self._silence.forget(host)
                    self._decider.record_lost(host, self._groups[host], time.monotonic())
                return
            self._record(host, message)

    def _record(self, host: str, message: dict[str, Any]) -> None:
        with self._lock:
            self._silence.record(host, time.monotonic())
            if "alive" in message:
                return
            if "ready" in message:
                self._ready.add(host)
            elif "versions" in message:
                self._versions.record(host, message["versions"])
            else:
                record_report(self._decider, host, message)
        self._changed.set()
        if "ready" in message:
            self._send_ready()

    @staticmethod
    def _receive(member: jsonl_socket.LineConnection) -> dict[str, Any] | None:
        try:
            return member.receive()
        except (WireError, ConnectionResetError):  # the latter: it died with lines of ours unread
            return None

    def _send_end(self) -> None:
        """Send the end to every host, also to those that join later; before it, ask about hangs."""
        while True:
            self._changed.clear()
            with self._lock:
                now = time.monotonic()
                self._look_for_silence(now)
                self._look_for_absent(now)
                outcome = self._decider.outcome(now)
                self._request_activity()
                waits = [] if outcome else list(self._wait_notice.due(self._decider.done, now))
                members, self._members = (self._members, []) if outcome else ([], self._members)
            for fields in waits:
                emit("waiting_for_hosts", **fields)
            for host, member in members:
                failure = outcome.failure if outcome else None
                self._send(member, {"end": failure and failure.to_message()})
                self._end_sent.add(host)
            self._changed.wait(_POLL)

    def _look_for_silence(self, now: float) -> None:
        """Name silent hosts, record frozen ones, and send a line of our own to the others."""
        for host, seconds in self._silence.look(now):
            emit("host_silent", member=host, seconds=round(seconds))
        for host in self._silence.frozen(now):
            self._decider.record_frozen(host, self._groups[host], now)
        if now < self._next_heartbeat:
            return
        self._next_heartbeat = now + HEARTBEAT_INTERVAL
        for host, member in self._members:
            if not self._silence.is_silent(host):  # what it does not read would fill the connection
                self._send(member, {"alive": True})

    def _look_for_absent(self, now: float) -> None:
        """Record the awaited hosts that have not joined in time: nobody else would miss them."""
        if now - self._started > self._start_timeout:
            for host in in_numeric_order(self._decider.absent):
                self._decider.record_absent(host, self._groups[host], self._start_timeout, now)

    def _request_activity(self) -> None:
        if not self._decider.needs_activity:
            return
        for host, member in self._members:
            if host in self._decider.train_hosts and host not in self._activity_requested:
                self._activity_requested.add(host)
                self._send(member, {"report_activity": True})

    def is_end_sent(self) -> bool:
        """Return true if the end was sent to every host."""
        return self._end_sent >= set(self._groups)

    def _send_ready(self) -> None:
        """Send the list of ready hosts to every host; receivers add it to what they have."""
        with self._lock:
            ready, members = sorted(self._ready), list(self._members)
        for _, member in members if ready else ():
            self._send(member, {"ready": ready})

    @staticmethod
    def _send(member: jsonl_socket.LineConnection, message: Mapping[str, object]) -> None:
        try:
            member.send(message)
        except OSError:
            return  # that host has exited and needs no message


@dataclass
class VersionSkew:
    """The leader's comparison: each difference between preparing and training hosts, once.

    groups: the group of each host. roles: the role of each group.
    """

    groups: Mapping[str, str]
    roles: Mapping[str, Role]
    _reports: dict[str, dict[str, str]] = field(default_factory=dict)
    _reported: set[tuple[str, str]] = field(default_factory=set)

    def record(self, host: str, versions: Mapping[str, str]) -> None:
        """Record a host's versions; emit an event for each package that newly differs."""
        self._reports[host] = dict(versions)
        for package, by_group in self._differences(host):
            emit(
                "versions_differ",
                package=package,
                by_group=by_group,
                why="batches may differ from those that the training hosts would prepare",
            )

    def _differences(self, host: str) -> Iterator[tuple[str, dict[str, str]]]:
        group = self.groups[host]
        for other, versions in self._reports.items():
            peer = self.groups[other]
            if self.roles[peer] is self.roles[group]:
                continue
            for package in self._reports[host].keys() & versions.keys():
                pair = {group: self._reports[host][package], peer: versions[package]}
                key = (package, "/".join(sorted(pair)))
                if len(set(pair.values())) > 1 and key not in self._reported:
                    self._reported.add(key)
                    yield package, pair


#: Seconds between two notices.
_NOTICE_INTERVAL = 600.0
#: Seconds until the first one: hosts that end together never do so at the same moment.
_FIRST_NOTICE_AFTER = 2.0


class WaitNotice:
    """Decides when waiting hosts are named. Pure: time is passed in.

    Hosts wait for others once the leading group has ended well; where no distribution is limited
    to a group, once any script group has.
    """

    def __init__(self, environment: Environment, interval: float | None = None) -> None:
        cluster, document = environment.cluster, environment.document
        self._interval = _NOTICE_INTERVAL if interval is None else interval
        self._awaited = environment.awaited_hosts
        scripts = [group for group in cluster.groups if group.role is Role.SCRIPT]
        leads = cluster.train_group.role is Role.TRAIN or document.trainer.launch != Launch.PYTHON
        ends = [cluster.train_group] if leads else scripts
        self._ends = [(group.name, self._ending(group)) for group in ends if scripts]
        self._groups = cluster.groups
        self._prices = {name: part.dollars_per_hour for name, part in document.scripts.items()}
        self._since: float | None = None
        self._next = 0.0

    def _ending(self, group: Group) -> frozenset[str]:
        """Return the hosts whose end is their group's: of parameter servers, the chief alone."""
        hosts = frozenset(group.hosts)
        return hosts & self._awaited or hosts

    def due(self, done: Collection[str], now: float) -> Iterator[dict[str, object]]:
        """Yield the fields of an event for each group with hosts that are waited for now."""
        ended = next((name for name, hosts in self._ends if hosts <= set(done)), None)
        if ended is None or self._awaited <= set(done):
            return
        if self._since is None:
            self._since, self._next = now, now + min(_FIRST_NOTICE_AFTER, self._interval)
        if now < self._next:
            return
        self._next = now + self._interval
        for group in self._groups:
            hosts = in_numeric_order(set(group.hosts) & self._awaited - set(done))
            if hosts:
                price = self._prices.get(group.name)
                yield {
                    "waits_for": ",".join(hosts),
                    "in_group": group.name,
                    "instance_type": group.instance_type,
                    "ended_group": ended,
                    "minutes": round((now - self._since) / 60),
                    **({} if price is None else {"dollars_per_hour": round(price * len(hosts), 2)}),
                }
