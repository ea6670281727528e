"""Decides how the job ends from what its hosts have reported. Pure: time is passed in.

When a rank dies its peers fail too, often before its own death is noticed. A report that looks like
the loss of a peer is secondary: it waits SETTLE seconds for a report of the cause. So does an
unreachable host, because the end of its connection may still arrive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from launcher.runtime.end.failure_file import Failure
from launcher.runtime.end.hang_diagnosis import HangDiagnosis, RankActivity
from launcher.runtime.end.host_silence import ENDED_AFTER, cause_of
from launcher.shared import HOST_DIED, NO_ANSWER, NOBODY_ANSWERS, NOT_JOINED

#: Seconds that a report of a lost peer waits for a report of the cause.
SETTLE = 3.0


@dataclass(frozen=True)
class JobOutcome:
    """The outcome of the job: the first failure, or success (None)."""

    failure: Failure | None = None


@dataclass(kw_only=True)
class OutcomeDecider:
    """Collects the hosts' reports and decides how the job ends.

    awaited: the hosts that must be done before the end: the train hosts and possibly others.
    tolerant_groups: the group of each host, if the loss of a host is tolerated while its group has
        others; else empty.
    """

    train_hosts: frozenset[str]
    awaited: frozenset[str]
    train_group: str = ""
    leader: str = ""
    tolerant_groups: Mapping[str, str] = field(default_factory=dict)
    _joined: set[str] = field(default_factory=set)
    _done: set[str] = field(default_factory=set)
    _unreachable: dict[str, float] = field(default_factory=dict)
    _lost: dict[str, Failure] = field(default_factory=dict)
    _secondary: tuple[float, Failure] | None = None
    _silent_exits: list[Failure] = field(default_factory=list)
    _diagnosis: HangDiagnosis | None = None
    _outcome: JobOutcome | None = None

    def record_join(self, host: str) -> None:
        """Record that a host has joined, or has come back after it was lost."""
        self._joined.add(host)
        self._lost.pop(host, None)
        self._unreachable.pop(host, None)

    def record_done(self, host: str) -> None:
        """Record that a host has completed its part."""
        self._done.add(host)
        self._succeed_if_complete()

    @property
    def done(self) -> frozenset[str]:
        """The hosts that have completed their part."""
        return frozenset(self._done)

    def record_failure(self, failure: Failure, now: float) -> None:
        """Record a failure that a host has reported."""
        is_train_host = failure.host in self.train_hosts
        if self._outcome is not None or (not is_train_host and self._tolerates(failure)):
            return
        if not failure.is_secondary:
            self._outcome = JobOutcome(failure)
        elif self._secondary is None:
            self._secondary = (now, failure)

    @property
    def absent(self) -> frozenset[str]:
        """The hosts that are awaited and have never joined."""
        return self.awaited - self._joined - self._lost.keys()

    def record_absent(self, host: str, group: str, seconds: float, now: float) -> None:
        """Record that a host has not joined for so long, which ends the job as its loss does."""
        cause = f"{NOT_JOINED} in {seconds:.0f} s (start_timeout)"
        self._record_lost(Failure(host=host, group=group, cause=cause, witness=self.leader), now)

    def record_lost(self, host: str, group: str, now: float) -> None:
        """Record that a host's connection ended; that is a failure unless the host was done."""
        if host not in self._done:
            self._record_lost(Failure(host=host, group=group, cause=HOST_DIED), now)

    def _record_lost(self, failure: Failure, now: float) -> None:
        if self._tolerates(failure):
            self._succeed_if_complete()
        else:
            self.record_failure(failure, now)

    def record_unreachable(self, host: str, now: float) -> None:
        """Record that a connection broke without an end: the host or the leader is cut off."""
        self._unreachable.setdefault(host, now)

    def record_frozen(self, host: str, group: str, now: float) -> None:
        """Record that a host has been silent for long, which fails the job if it is awaited."""
        if host in self.awaited - self._done:
            cause = cause_of(ENDED_AFTER)
            failure = Failure(host=host, group=group, cause=cause, witness=self.leader)
            self.record_failure(failure, now)

    def record_hang(self, report: Failure, now: float) -> None:
        """Record that a rank hangs; the end then waits for the train hosts' answers."""
        self._diagnosis = self._diagnosis or HangDiagnosis(report, now)

    @property
    def needs_activity(self) -> bool:
        """True if the train hosts are to report what their ranks are doing."""
        return self._diagnosis is not None

    def record_silent_exit(self, failure: Failure) -> None:
        """Record that a rank left with 0: the cause if others fail without it."""
        self._silent_exits.append(failure)

    def caused_by_silent_exit(self, failure: Failure) -> Failure:
        """Return the failure, or that of the rank that left before it."""
        if not self._silent_exits:
            return failure
        left = self._silent_exits[0]
        detail = f"{failure.cause}\n{failure.detail}".rstrip()
        cause = f"{left.cause}, and rank {failure.rank} failed without it"
        return replace(left, cause=cause, detail=detail, witness=self.leader or None)

    def record_activity(self, host: str, activities: Sequence[RankActivity]) -> None:
        """Record what a host's ranks are doing."""
        if self._diagnosis is not None:
            self._diagnosis.answers[host] = list(activities)

    def outcome(self, now: float) -> JobOutcome | None:
        """Return the outcome of the job, or None until it is decided."""
        if self._outcome is None and (failure := self._failure(now)):
            self._outcome = JobOutcome(failure)
        return self._outcome

    def _succeed_if_complete(self) -> None:
        is_complete = self._done and self._done >= self.awaited - self._lost.keys()
        if self._outcome is None and self._secondary is None and is_complete:
            self._outcome = JobOutcome()

    def _tolerates(self, failure: Failure) -> bool:
        """Return true if the loss of a host is tolerated; it may still explain a peer's failure."""
        groups = self.tolerant_groups
        if not groups:
            return False
        self._lost.setdefault(failure.host, failure)
        group = {host for host, name in groups.items() if name == failure.group}
        return not group <= self._lost.keys()

    def _failure(self, now: float) -> Failure | None:
        """Return a failure that has waited long enough for a better report, or None."""
        pending_hosts = self.train_hosts - self._done - self._lost.keys()
        if self._diagnosis and self._diagnosis.is_complete(pending_hosts, now):
            return self.caused_by_silent_exit(self._diagnosis.failure(pending_hosts))
        if failure := self._network_failure(now):
            return failure
        if self._secondary is not None and now - self._secondary[0] >= SETTLE:
            lost = (self._lost[host] for host in self.train_hosts & self._lost.keys())
            return next(lost, None) or self.caused_by_silent_exit(self._secondary[1])
        return None

    def _network_failure(self, now: float) -> Failure | None:
        """Blame the first unreachable train host, or the leader if it reaches no other host."""
        required = self.train_hosts - self._done
        overdue = [host for host, since in self._unreachable.items() if now - since >= SETTLE]
        missing = [host for host in overdue if host in required]
        if not missing:
            return None
        others = self._joined - {self.leader}
        is_leader_cut_off = len(others) > 1 and others <= self._unreachable.keys()
        return Failure(
            host=self.leader if is_leader_cut_off else missing[0],
            group=self.train_group,
            cause=f"{NOBODY_ANSWERS if is_leader_cut_off else f'it {NO_ANSWER}'}: its network is "
            "cut, or the instance is lost",
            witness=self.leader,
        )
