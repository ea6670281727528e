"""Metrics of a whole data service, as its processes report them to the dispatcher. Pure.

Reports carry totals since their process began. When a process is gone, its totals are kept for its
host or rank, so that no metric decreases when a worker is replaced. A process that only lost its
connection resumes its own totals, so that nothing counts twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from launcher.data.control import messages as m
from launcher.shared import WaitKind

#: Metrics of one host, rank or receiver, by name.
Figures = dict[str, float]

#: The metrics that each kind of process may report: growing totals, and current values.
_GROWING = {
    "worker": (
        *("batches", "bytes", "prepared", "preparing", "blocked", "elapsed", "cpu", "starved"),
        *(kind.value for kind in WaitKind),
    ),
    "rank": ("steps", "epochs", "wait", "total", "startup", "first_waits"),
    "receiver": ("batches", "bytes", "elapsed", "cpu"),
}
_CURRENT = {
    "worker": ("unsent", "cpus", "longest"),
    "rank": (),
    "receiver": ("held", "high", "budget"),
}
#: Aggregated over a host's workers by maximum; other current values are summed.
_SHARED = frozenset({"cpus", "high", "budget", "longest"})
#: Keeps event lines below the 4096 bytes that a pipe writes atomically.
_NAMES_PER_LINE = 9
#: Maximum number of a host's disconnected workers that may reconnect.
_MOST_AWAY = 256


@dataclass
class _Subject:
    """A host, or a rank of a stream: its living processes, and the totals of earlier ones."""

    past: Figures = field(default_factory=dict)
    living: dict[str, Figures] = field(default_factory=dict)
    away: dict[str, Figures] = field(default_factory=dict)  # the latest last
    most: int = 0  # processes at once

    def record(self, process: str, figures: Figures) -> None:
        self.away.pop(process, None)
        self.living[process] = figures
        self.most = max(self.most, len(self.living))

    def lose(self, process: str, growing: Iterable[str]) -> None:
        """Move a process whose connection has ended to those that may reconnect."""
        if process in self.living:
            self.away[process] = self.living.pop(process)
        if len(self.away) > _MOST_AWAY:
            self._retire(self.away.pop(next(iter(self.away))), growing)

    def replace(self, process: str, growing: Iterable[str]) -> None:
        """Retire all other processes, which this one replaces."""
        for other in self.living.keys() - {process}:
            self._retire(self.living.pop(other), growing)

    def _retire(self, gone: Figures, growing: Iterable[str]) -> None:
        for name in growing:
            self.past[name] = self.past.get(name, 0.0) + gone.get(name, 0.0)
        for name in _SHARED & gone.keys():
            self.past[name] = max(self.past.get(name, 0.0), gone[name])


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """All metrics at one moment: of hosts with workers, (rank, stream), receivers, dispatcher."""

    hosts: Mapping[str, Figures]
    ranks: Mapping[tuple[str, str], Figures]
    receivers: Mapping[str, Figures]
    dispatcher: Figures

    def event_fields(self) -> Iterator[dict[str, object]]:
        """Yield the fields of each data_metrics event."""
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
    """Takes reports and produces snapshots; also counts the dispatcher's own actions."""

    def __init__(self) -> None:
        self._subjects: dict[str, dict[str, _Subject]] = {kind: {} for kind in _GROWING}
        self.dispatcher: Figures = dict.fromkeys(("messages", "leases", "lost_leases"), 0.0)

    def count(self, what: str, number: int = 1) -> None:
        """Add to one of the dispatcher's own counters."""
        self.dispatcher[what] += number

    def record(self, report: m.Report) -> None:
        """Take a report; ignores values that are not metrics of its kind."""
        if report.kind not in _GROWING:
            return
        names = (*_GROWING[report.kind], *_CURRENT[report.kind])
        figures = {name: report.figures[name] for name in names if _is_figure(report.figures, name)}
        subject = self._subjects[report.kind].setdefault(report.of, _Subject())
        if report.kind != "worker":  # a rank or a receiver has one process at a time
            subject.replace(report.process, _GROWING[report.kind])
        subject.record(report.process, figures)

    def forget_worker(self, worker: str) -> None:
        """Mark a worker as gone; its totals stay with its host, and it may reconnect."""
        for subject in self._subjects["worker"].values():
            subject.lose(worker, _GROWING["worker"])

    def snapshot(self, leases: Mapping[str, int], late_leases: int) -> Snapshot:
        """Return all metrics now.

        leases: batches currently leased to each host's workers. late_leases: batches leased twice
        so far.
        """
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
