"""The metrics of a job for a reader: as line charts on a terminal, or as a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

from launcher.client.cli.line_charts import line_chart
from launcher.client.jobs.aligned_columns import aligned
from launcher.client.jobs.durations import readable
from launcher.client.jobs.job_metrics import JobMetrics, MetricSeries, group_series
from launcher.client.jobs.short_numbers import short_number
from launcher.shared.terminal_text import printable

#: The narrowest chart; a terminal of 80 columns shows two side by side.
_LEAST_WIDTH = 38
_GAP = 2
_HEADER = ("METRIC", "GROUP", "HOST", "VALUES", "FIRST", "MIN", "MAX", "LAST")

Style = Callable[[str], str]


def metric_table(metrics: JobMetrics) -> list[str]:
    """Return the lines of a table: for each metric and host its number of values, and some."""
    rows = [_HEADER, *map(_row, metrics.whole_series)]
    return aligned([[printable(cell, keep_styles=False) for cell in row] for row in rows])


def _row(series: MetricSeries) -> tuple[str, ...]:
    values, finite = series.values, series.finite or series
    shown = (values[0], min(finite.values), max(finite.values), values[-1])
    origin = (series.group or "-", series.host or "-")
    return (series.metric_name, *origin, str(len(values)), *map(short_number, shown))


def metric_charts(metrics: JobMetrics, width: int, bold: Style = str) -> list[str]:
    """Return the lines of a chart for each metric and group, as many beside each other as fit.

    A chart has a line for each host of the group, and its heading the mean of their last values.
    All charts have the same time axis. A metric without a finite value has a heading alone. width:
    characters of the terminal; bold: styles a heading.
    """
    series = metrics.whole_series
    if not series:
        return []
    start = min(each.times[0] for each in series)
    end = max(each.times[-1] for each in series)
    count = max(1, (width + _GAP) // (_LEAST_WIDTH + _GAP))
    chart_width = (width + _GAP) // count - _GAP
    charts = [
        [
            bold(_heading(name, group, of_hosts, chart_width)),
            *line_chart(
                [
                    list(zip(each.times, each.values, strict=True))
                    for whole in of_hosts
                    if (each := whole.finite) is not None
                ],
                start=start,
                end=end,
                width=chart_width,
            ),
        ]
        for name, group, of_hosts in group_series(series)
    ]
    lines = [line for row in _rows(charts, count) for line in _beside(row, chart_width)]
    return [*lines, f"{readable(end - start)} from the left to the right edge"]


def _heading(name: str, group: str, hosts: Sequence[MetricSeries], width: int) -> str:
    """Return a heading of `width` characters: the last value at its right edge.

    It is wider where that value and one character of the name do not fit.
    """
    last = short_number(sum(each.values[-1] for each in hosts) / len(hosts))
    origin = "  ".join(part for part in (name, group) if part)
    room = max(1, width - len(last) - 1)
    shown = printable(origin, keep_styles=False)
    shown = shown if len(shown) <= room else shown[: room - 1] + "…"
    return f"{shown:<{room}} {last}"


def _rows(charts: Sequence[list[str]], count: int) -> Iterator[Sequence[list[str]]]:
    for first in range(0, len(charts), count):
        yield charts[first : first + count]


def _beside(charts: Sequence[list[str]], width: int) -> Iterator[str]:
    # All lines have the same number of characters, headings with styles around them.
    for lines in zip_longest(*charts, fillvalue=" " * width):
        yield (" " * _GAP).join(lines).rstrip()
    yield ""
