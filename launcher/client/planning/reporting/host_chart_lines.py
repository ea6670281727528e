"""The hosts of a group as lines of a chart: each one, or the lowest, median and highest. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence

from launcher.client.jobs.job_metrics import MetricSeries
from launcher.client.planning.reporting.report_chart import ChartLine

#: With more hosts than this, no reader can follow a line.
MOST_HOSTS = 8
#: Parts of the time; in each, the lowest, median and highest mean of a host are drawn.
_TIME_BINS = 120
_CHOICES: tuple[tuple[str, Callable[[Sequence[float]], float]], ...] = (
    ("highest host", max),
    ("median host", statistics.median),
    ("lowest host", min),
)


def host_chart_lines(series: Sequence[MetricSeries]) -> list[ChartLine]:
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
    length = (max(each.times[-1] for each in series) - begin) / _TIME_BINS or 1.0
    bins: list[list[float]] = [[] for _ in range(_TIME_BINS)]
    for each in series:
        for number, mean in _means(each, begin, length):
            bins[number].append(mean)
    middles = [(begin + (n + 0.5) * length, found) for n, found in enumerate(bins) if found]
    times = [time for time, _ in middles]
    return [
        ChartLine(name=name, times=times, values=[choose(found) for _, found in middles])
        for name, choose in _CHOICES
    ]


def _means(series: MetricSeries, begin: float, length: float) -> Iterator[tuple[int, float]]:
    """Yield the number of each bin in which a host has values, and their mean."""
    sums = [0.0] * _TIME_BINS
    counts = [0] * _TIME_BINS
    for time, value in zip(series.times, series.values, strict=True):
        number = min(_TIME_BINS - 1, math.floor((time - begin) / length))
        sums[number] += value
        counts[number] += 1
    yield from ((number, sums[number] / count) for number, count in enumerate(counts) if count)
