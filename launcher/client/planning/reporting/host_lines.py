"""The hosts of a group as lines of a chart: each one, or the lowest, median and highest. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence

from launcher.client.jobs.job_metrics import MetricSeries
from launcher.client.planning.reporting.report_chart import ChartLine

#: With more hosts than this, no reader can follow a line.
MOST_HOSTS = 8
#: Parts of the time of which the lowest, median and highest host are drawn.
_PARTS = 120
_CHOICES: tuple[tuple[str, Callable[[Sequence[float]], float]], ...] = (
    ("highest host", max),
    ("median host", statistics.median),
    ("lowest host", min),
)


def host_lines(series: Sequence[MetricSeries]) -> list[ChartLine]:
    """Return a line for each host, or three of all hosts if they are many.

    These are of the hosts' means in parts of the time, so that a host which is slow for a while
    stands out and a single value does not.
    """
    if len(series) <= MOST_HOSTS:
        return [
            ChartLine(name=each.host or "all hosts", times=each.times, values=each.values)
            for each in series
        ]
    begin = min(each.times[0] for each in series)
    length = (max(each.times[-1] for each in series) - begin) / _PARTS or 1.0
    parts: list[list[float]] = [[] for _ in range(_PARTS)]
    for each in series:
        for part, mean in _means(each, begin, length):
            parts[part].append(mean)
    middles = [(begin + (part + 0.5) * length, found) for part, found in enumerate(parts) if found]
    times = [time for time, _ in middles]
    return [
        ChartLine(name=name, times=times, values=[choose(found) for _, found in middles])
        for name, choose in _CHOICES
    ]


def _means(series: MetricSeries, begin: float, length: float) -> Iterator[tuple[int, float]]:
    """Yield the parts of the time in which a host has values, and their means."""
    sums = [0.0] * _PARTS
    counts = [0] * _PARTS
    for time, value in zip(series.times, series.values, strict=True):
        part = min(_PARTS - 1, math.floor((time - begin) / length))
        sums[part] += value
        counts[part] += 1
    yield from ((part, sums[part] / count) for part, count in enumerate(counts) if count)
