"""Hang diagnosis: after the report of a hang, ask what every rank is doing.

A rank that does not wait while all others do is the one they wait for. Pure: time is passed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any

from launcher.runtime.failure_file import Failure

#: Seconds that the leader waits for the answers of all train hosts, since one may be frozen.
ANSWER_PATIENCE = 8.0


@dataclass(frozen=True, kw_only=True)
class RankActivity:
    """One rank's activity in words; `waits` is true if it waits for other processes."""

    rank: int
    host: str
    group: str
    words: str
    waits: bool

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
    begun: float
    answers: dict[str, list[RankActivity]] = field(default_factory=dict)

    def is_over(self, hosts: Iterable[str], now: float) -> bool:
        """Return true if all hosts have answered or their time is up."""
        return self.answers.keys() >= set(hosts) or now - self.begun > ANSWER_PATIENCE

    def verdict(self, hosts: Iterable[str]) -> Failure:
        """Return the failure, blaming the single rank that the others wait for, if any."""
        silent = sorted(set(hosts) - self.answers.keys())
        doings = sorted((d for each in self.answers.values() for d in each), key=_odd_first)
        parts = [*_in_words(doings), *(f"host {host} does not answer" for host in silent)]
        odd = [doing for doing in doings if not doing.waits]
        # A host that does not answer cannot write its failure file either, so the reporter does.
        host, group, rank = self.report.host, self.report.group, self.report.rank
        if len(odd) == 1 and not silent:
            host, group, rank = odd[0].host, odd[0].group, odd[0].rank
        cause = "; ".join(parts) or "the rank that reported it has gone since"
        return Failure(host=host, group=group, rank=rank, cause=f"{self.report.cause}: {cause}")


def _odd_first(doing: RankActivity) -> tuple[bool, int]:
    return doing.waits, doing.rank


def _in_words(doings: Iterable[RankActivity]) -> list[str]:
    """Return one phrase per activity, which names all ranks that share it."""
    phrases = []
    for words, same in groupby(
        sorted(doings, key=lambda d: (d.waits, d.words, d.rank)), key=lambda d: d.words
    ):
        ranks = [doing.rank for doing in same]
        who = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
        phrases.append(f"{who} {words if len(ranks) == 1 else _plural(words)}")
    return phrases


def _plural(words: str) -> str:
    verb, _, rest = words.partition(" ")
    return f"{ {'waits': 'wait', 'is': 'are'}[verb] } {rest}"
