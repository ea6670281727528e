"""Decides how the job ends from what its hosts have reported. Pure: time is passed in.

When a rank dies its peers fail too, often before its own death is noticed. A report that looks like
the loss of a peer therefore waits SETTLE seconds for a better one. Silence waits as long, because
the end of a connection may still arrive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from launcher.runtime.failure_file import Failure
from launcher.runtime.hang_diagnosis import HangDiagnosis, RankActivity

#: Seconds that a report of a lost peer waits for a report of the cause.
SETTLE = 3.0


@dataclass(frozen=True)
class HostEnd:
    """The end of the job: the first failure, or success (None)."""

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
    _silent: dict[str, float] = field(default_factory=dict)
    _lost: dict[str, Failure] = field(default_factory=dict)
    _echo: tuple[float, Failure] | None = None
    _inquiry: HangDiagnosis | None = None
    _end: HostEnd | None = None

    def joined(self, host: str) -> None:
        """Record that a host has joined, or has come back after it was lost."""
        self._joined.add(host)
        self._lost.pop(host, None)
        self._silent.pop(host, None)

    def done(self, host: str) -> None:
        """Record that a host has completed its part."""
        self._done.add(host)
        self._end_well()

    def failed(self, failure: Failure, now: float) -> None:
        """Record a failure that a host has reported."""
        is_helper = failure.host not in self.train_hosts
        if self._end is not None or (is_helper and self._goes_on_without(failure)):
            return
        if not failure.is_echo:
            self._end = HostEnd(failure)
        elif self._echo is None:
            self._echo = (now, failure)

    def lost(self, host: str, group: str, now: float) -> None:
        """Record that a host's connection ended; that is a failure unless the host was done."""
        if host in self._done:
            return
        failure = Failure(host=host, group=group, cause="the host died")
        if self._goes_on_without(failure):
            self._end_well()
        else:
            self.failed(failure, now)

    def silent(self, host: str, now: float) -> None:
        """Record that a connection broke without an end: the host or the leader is cut off."""
        self._silent.setdefault(host, now)

    def hung(self, report: Failure, now: float) -> None:
        """Record that a rank hangs; the end then waits for the train hosts' answers."""
        self._inquiry = self._inquiry or HangDiagnosis(report, now)

    @property
    def inquires(self) -> bool:
        """True if the train hosts are to report what their ranks are doing."""
        return self._inquiry is not None

    def answered(self, host: str, doings: Sequence[RankActivity]) -> None:
        """Record what a host's ranks are doing."""
        if self._inquiry is not None:
            self._inquiry.answers[host] = list(doings)

    def end(self, now: float) -> HostEnd | None:
        """Return the end of the job, or None until it is decided."""
        if self._end is None and (failure := self._verdict(now)):
            self._end = HostEnd(failure)
        return self._end

    def _end_well(self) -> None:
        is_complete = self._done and self._done >= self.awaited - self._lost.keys()
        if self._end is None and self._echo is None and is_complete:
            self._end = HostEnd()

    def _goes_on_without(self, failure: Failure) -> bool:
        """Return true if the loss is tolerated; at most it then explains a peer's failure."""
        groups = self.tolerant_groups
        if not groups:
            return False
        self._lost.setdefault(failure.host, failure)
        group = {host for host, name in groups.items() if name == failure.group}
        return not group <= self._lost.keys()

    def _verdict(self, now: float) -> Failure | None:
        """Return a failure that has waited long enough for a better report, or None."""
        asked = self.train_hosts - self._done - self._lost.keys()
        if self._inquiry and self._inquiry.is_over(asked, now):
            return self._inquiry.verdict(asked)
        if cut_off := self._cut_off(now):
            return cut_off
        if self._echo is not None and now - self._echo[0] >= SETTLE:
            lost = (self._lost[host] for host in self.train_hosts & self._lost.keys())
            return next(lost, self._echo[1])
        return None

    def _cut_off(self, now: float) -> Failure | None:
        """Blame the first silent train host, or the leader if all others are silent; else None."""
        needed = self.train_hosts - self._done
        silent = [host for host, since in self._silent.items() if now - since >= SETTLE]
        missed = [host for host in silent if host in needed]
        if not missed:
            return None
        others = self._joined - {self.leader}
        alone = len(others) > 1 and others <= self._silent.keys()
        return Failure(
            host=self.leader if alone else missed[0],
            group=self.train_group,
            cause=f"{'no other host answers' if alone else 'it does not answer'} any more: "
            "its network is cut, or the instance is lost",
            witness=self.leader,
        )
