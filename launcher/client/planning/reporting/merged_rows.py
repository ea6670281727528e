"""Hosts and events that are alike as one row, as most of a large job's are. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from launcher.client.planning.reporting.report_chart import ChartBar

#: Times that differ by less than this share of the chart look the same.
_SAME = 0.01


@dataclass(frozen=True, kw_only=True)
class ReportEvent:
    """An event of a host, as the report lists it. time: in seconds since the epoch."""

    time: float
    host: str
    text: str


def merged_events(events: Sequence[ReportEvent]) -> Iterator[ReportEvent]:
    """Yield the events in their order; hosts that report the same in turn are one, at its first."""
    for text, found in itertools.groupby(events, lambda each: each.text):
        alike = list(found)
        hosts = list(dict.fromkeys(each.host for each in alike))
        several = f"{hosts[0]} and {len(hosts) - 1} more"
        host = hosts[0] if len(hosts) == 1 else several
        times = f" ({len(alike)} times)" if len(alike) > len(hosts) else ""
        yield ReportEvent(time=alike[0].time, host=host, text=text + times)


def merged_hosts(hosts: Mapping[str, ChartBar]) -> Iterator[tuple[str, ChartBar]]:
    """Yield a name and bar for neighbours of a group with the same times: "algo-1 to algo-16"."""
    if not hosts:
        return
    span = max(bar.end for bar in hosts.values()) - min(bar.begin for bar in hosts.values())
    first = last = ""
    shown: ChartBar | None = None
    for host, bar in hosts.items():
        if shown is None or not _are_alike(shown, bar, _SAME * span):
            if shown is not None:
                yield _name(first, last), shown
            first, shown = host, bar
        last = host
    if shown is not None:
        yield _name(first, last), shown


def _are_alike(one: ChartBar, other: ChartBar, most: float) -> bool:
    differs = max(abs(one.begin - other.begin), abs(one.end - other.end))
    return one.name == other.name and differs <= most


def _name(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"
