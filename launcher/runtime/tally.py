"""What the hosts of a job have reported, and what its end follows from. Pure: time is passed in.

A rank that dies makes its peers fail too, often sooner than its own death is noticed. So a report
that reads like the loss of a peer waits SETTLE seconds for a better one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from launcher.runtime.failure import Failure
from launcher.runtime.inquiry import Doing, Inquiry

#: Seconds that a report of a lost peer waits for the report of the cause.
SETTLE = 3.0


@dataclass(frozen=True)
class End:
    """How the job ended: with the failure that came first, or well."""

    failure: Failure | None = None


@dataclass
class Tally:
    """What the hosts have reported; decides on the end."""

    train_hosts: frozenset[str]
    #: The group of each host, where the loss of a host is tolerated while its group has others.
    tolerant_groups: Mapping[str, str] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)
    _echo: tuple[float, Failure] | None = None
    _lost: dict[str, Failure] = field(default_factory=dict)
    _inquiry: Inquiry | None = None
    _end: End | None = None

    @property
    def inquires(self) -> bool:
        """Whether the train hosts are to say what their ranks are doing."""
        return self._inquiry is not None

    def done(self, host: str) -> None:
        self._done.add(host)
        self._end_well()

    def _end_well(self) -> None:
        is_complete = self._done and self._done >= self.train_hosts - self._lost.keys()
        if self._end is None and self._echo is None and is_complete:
            self._end = End()

    def failed(self, failure: Failure, now: float) -> None:
        is_data_host = failure.host not in self.train_hosts
        if self._end is not None or (is_data_host and self._goes_on_without(failure)):
            return
        if not failure.is_echo:
            self._end = End(failure)
        elif self._echo is None:
            self._echo = (now, failure)

    def lost(self, host: str, group: str, now: float) -> None:
        """A host's connection ended; before its word, that is a failure of its own."""
        if host in self._done:
            return
        failure = Failure(host=host, group=group, cause="the host died")
        if self._goes_on_without(failure):
            self._end_well()
        else:
            self.failed(failure, now)

    def _goes_on_without(self, failure: Failure) -> bool:
        """Whether the loss of a host is tolerated; then it is at most the cause of an echo."""
        groups = self.tolerant_groups
        if not groups:
            return False
        self._lost.setdefault(failure.host, failure)
        group = {host for host, name in groups.items() if name == failure.group}
        return not group <= self._lost.keys()

    def hung(self, report: Failure, now: float) -> None:
        """A rank waits for ever; the end waits for the answers of the train hosts."""
        self._inquiry = self._inquiry or Inquiry(report, now)

    def answered(self, host: str, doings: Sequence[Doing]) -> None:
        if self._inquiry is not None:
            self._inquiry.answers[host] = list(doings)

    def end(self, now: float) -> End | None:
        """The end of the job, once it is decided."""
        asked = self.train_hosts - self._done - self._lost.keys()
        if self._end is None and self._inquiry and self._inquiry.is_over(asked, now):
            self._end = End(self._inquiry.verdict(asked))
        if self._end is None and self._echo is not None and now - self._echo[0] >= SETTLE:
            lost = (self._lost[host] for host in self.train_hosts & self._lost.keys())
            self._end = End(next(lost, self._echo[1]))
        return self._end
