"""Hang diagnosis: after the report of a hang, ask what every rank is doing.

A rank that does not wait while all others do is the one they wait for. Pure: time is passed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any

from launcher.runtime.end.failure_file import Failure

#: Seconds that the leader waits for the answers of all train hosts, since one may be frozen.
ANSWER_TIMEOUT = 8.0


@dataclass(frozen=True, kw_only=True)
class RankActivity:
    """The activity of one rank.

    description: a phrase that begins with "waits" or "is".
    is_waiting: true if the rank waits for other processes.
    """

    rank: int
    host: str
    group: str
    description: str
    is_waiting: bool

    def to_message(self) -> dict[str, Any]:
        """Return the fields as a JSON message."""
        return asdict(self)

    @classmethod
    def from_message(cls, message: Mapping[str, Any]) -> RankActivity:
        """Read the fields of a JSON message."""
        return cls(**message)


@dataclass
class HangDiagnosis:
    """The first report of a hang and the train hosts' answers since."""

    report: Failure
    start_time: float
    answers: dict[str, list[RankActivity]] = field(default_factory=dict)

    def is_complete(self, hosts: Iterable[str], now: float) -> bool:
        """Return true if all hosts have answered or their time is up."""
        return self.answers.keys() >= set(hosts) or now - self.start_time > ANSWER_TIMEOUT

    def failure(self, hosts: Iterable[str]) -> Failure:
        """Return the failure, blaming the single rank that the others wait for, if any."""
        unanswered = sorted(set(hosts) - self.answers.keys())
        activities = [activity for answer in self.answers.values() for activity in answer]
        parts = [*_describe(activities), *(f"host {host} does not answer" for host in unanswered)]
        culprits = [activity for activity in activities if not activity.is_waiting]
        # A host that does not answer cannot write its failure file either, so the reporter does.
        host, group, rank = self.report.host, self.report.group, self.report.rank
        if len(culprits) == 1 and not unanswered:
            host, group, rank = culprits[0].host, culprits[0].group, culprits[0].rank
        cause = "; ".join(parts) or "the rank that reported it has exited since"
        return Failure(host=host, group=group, rank=rank, cause=f"{self.report.cause}: {cause}")


def _describe(activities: Iterable[RankActivity]) -> list[str]:
    """Return one phrase per activity, which names all ranks that share it; waits come last."""
    ordered = sorted(activities, key=lambda each: (each.is_waiting, each.description, each.rank))
    phrases = []
    for description, same in groupby(ordered, key=lambda each: each.description):
        ranks = [each.rank for each in same]
        if len(ranks) == 1:
            phrases.append(f"rank {ranks[0]} {description}")
        else:
            phrases.append(f"ranks {', '.join(map(str, ranks))} {_plural(description)}")
    return phrases


def _plural(description: str) -> str:
    verb, _, rest = description.partition(" ")
    return f"{ {'waits': 'wait', 'is': 'are'}[verb] } {rest}"
