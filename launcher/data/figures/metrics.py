"""The numbers of a whole data service: what its processes report, kept by the dispatcher. Pure.

Reports carry totals since their process began. A process that is gone leaves its totals to its
host, or its rank, so that a figure never goes down when a worker is replaced; one that has but lost
its connection goes on with its own, so that nothing counts twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from launcher.data.control import messages as m

#: Figures of one host, rank or receiver, by name.
Figures = dict[str, float]

#: What each kind of process may report: what grows, and what is only so now.
_GROWING = {
    "worker": ("batches", "bytes", "prepared", "preparing", "blocked", "elapsed", "cpu", "starved"),
    "rank": ("steps", "epochs", "wait", "total", "startup", "first_waits"),
    "receiver": ("batches", "bytes", "elapsed", "cpu"),
}
_CURRENT = {
    "worker": ("unsent", "cpus"),
    "rank": (),
    "receiver": ("held", "high", "budget"),
}
#: Of several workers on one host the largest counts; other current figures are summed.
_SHARED = frozenset({"cpus", "high", "budget"})
#: Event lines stay below the 4096 bytes that a pipe takes in one piece.
_NAMES_PER_LINE = 10
#: Workers of a host that are gone and may come back, at most.
_MOST_AWAY = 256


@dataclass
class _Subject:
    """A host, or a rank of a stream: its living processes, and those before them."""

    past: Figures = field(default_factory=dict)
    living: dict[str, Figures] = field(default_factory=dict)
    away: dict[str, Figures] = field(default_factory=dict)  # the latest last
    most: int = 0  # processes at once

    def hear(self, process: str, figures: Figures) -> None:
        self.away.pop(process, None)
        self.living[process] = figures
        self.most = max(self.most, len(self.living))

    def lose(self, process: str, growing: Iterable[str]) -> None:
        """The connection of a process has ended."""
        if process in self.living:
            self.away[process] = self.living.pop(process)
        if len(self.away) > _MOST_AWAY:
            self._retire(self.away.pop(next(iter(self.away))), growing)

    def replace(self, process: str, growing: Iterable[str]) -> None:
        """This process has taken the place of any other."""
        for other in self.living.keys() - {process}:
            self._retire(self.living.pop(other), growing)

    def _retire(self, gone: Figures, growing: Iterable[str]) -> None:
        for name in growing:
            self.past[name] = self.past.get(name, 0.0) + gone.get(name, 0.0)
        for name in _SHARED & gone.keys():
            self.past[name] = max(self.past.get(name, 0.0), gone[name])


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """All figures at one moment: of hosts with workers, (rank, stream), receivers, dispatcher."""

    hosts: Mapping[str, Figures]
    ranks: Mapping[tuple[str, str], Figures]
    receivers: Mapping[str, Figures]
    dispatcher: Figures

    def event_fields(self) -> Iterator[dict[str, object]]:
        """The fields of the data_metrics lines."""
        named: dict[str, Mapping[str, Figures]] = {
            "hosts": self.hosts,
            "ranks": {f"{rank}/{stream}": each for (rank, stream), each in self.ranks.items()},
            "receivers": self.receivers,
        }
        for kind, figures in named.items():
            names = sorted(figures)
            for start in range(0, len(names), _NAMES_PER_LINE):
                part = names[start : start + _NAMES_PER_LINE]
                yield {"of": kind, "figures": {name: _short(figures[name]) for name in part}}
        yield {"of": "dispatcher", "figures": _short(self.dispatcher)}


def _short(figures: Figures) -> Figures:
    return {name: round(value, 4) for name, value in figures.items()}


class Metrics:
    """Takes reports, and gives snapshots. Counts what the dispatcher itself does, too."""

    def __init__(self) -> None:
        self._subjects: dict[str, dict[str, _Subject]] = {kind: {} for kind in _GROWING}
        self.dispatcher: Figures = dict.fromkeys(("messages", "leases", "lost_leases"), 0.0)

    def count(self, what: str, number: int = 1) -> None:
        self.dispatcher[what] += number

    def hear(self, report: m.Report) -> None:
        """Take a report; what is no number of its kind is left out."""
        if report.kind not in _GROWING:
            return
        names = (*_GROWING[report.kind], *_CURRENT[report.kind])
        figures = {name: report.figures[name] for name in names if _is_figure(report.figures, name)}
        subject = self._subjects[report.kind].setdefault(report.of, _Subject())
        if report.kind != "worker":  # of a rank, or a receiver, there is one process at a time
            subject.replace(report.process, _GROWING[report.kind])
        subject.hear(report.process, figures)

    def forget_worker(self, worker: str) -> None:
        """A worker is gone, or will come back; its totals stay with its host."""
        for subject in self._subjects["worker"].values():
            subject.lose(worker, _GROWING["worker"])

    def snapshot(self, leases: Mapping[str, int], late_leases: int) -> Snapshot:
        """leases: in the hands of each host's workers now. late_leases: given twice, so far."""
        hosts = self._figures("worker")
        for host, figures in hosts.items():
            subject = self._subjects["worker"][host]
            figures["workers"], figures["most_workers"] = len(subject.living), subject.most
            figures["leases"] = leases.get(host, 0)
        ranks = {}
        for name, figures in self._figures("rank").items():
            rank, _, stream = name.partition("/")
            ranks[rank, stream] = figures
        return Snapshot(
            hosts=hosts,
            ranks=ranks,
            receivers=self._figures("receiver"),
            dispatcher={**self.dispatcher, "late_leases": late_leases},
        )

    def _figures(self, kind: str) -> dict[str, Figures]:
        return {
            name: _merged(subject, _GROWING[kind], _CURRENT[kind])
            for name, subject in sorted(self._subjects[kind].items())
        }


def _is_figure(figures: Mapping[str, object], name: str) -> bool:
    value = figures.get(name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value >= 0  # type: ignore[arg-type,operator]  # is_number says so


def _merged(subject: _Subject, growing: Iterable[str], current: Iterable[str]) -> Figures:
    living = subject.living.values()
    known = [subject.past, *subject.away.values(), *living]
    totals = {name: sum(each.get(name, 0.0) for each in known) for name in growing}
    now = {
        name: max(each.get(name, 0.0) for each in known)
        if name in _SHARED
        else sum(each.get(name, 0.0) for each in living)
        for name in current
    }
    return totals | now
