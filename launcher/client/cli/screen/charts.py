"""Charts in characters: the metrics of a job over time, and the price of clusters over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest

from launcher.client.jobs import JobMetrics, MetricSeries, group_series
from launcher.client.planning import ClusterScatter
from launcher.client.show import readable, short_number
from launcher.shared import printable

#: The narrowest chart; a terminal of 80 columns shows two side by side.
_LEAST_WIDTH = 38
_GAP = 2

Style = Callable[[str], str]


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


#: Rows of characters between the lowest and the highest value.
_ROWS = 4
#: The braille pattern without dots, and the bit of each dot: by row, left and right.
_BLANK = 0x2800
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))

Points = Sequence[tuple[float, float]]


def line_chart(lines: Iterable[Points], *, start: float, end: float, width: int) -> list[str]:
    """Draw lines through points of (time, value), by time, as rows of `width` characters.

    The highest and the lowest value stand beside the first and the last row; once, if they are
    equal, and the line is in the middle. Without points there are no rows. start, end: the times
    of the left and the right edge; all values are finite.
    """
    drawn = [points for points in lines if points]
    if not drawn:
        return []
    values = [value for points in drawn for _, value in points]
    low, high = min(values), max(values)
    top, bottom = (short_number(value) for value in (high, low))
    labels = ["" if top == bottom else top, *[""] * (_ROWS - 2), bottom]
    margin = max(map(len, labels))
    canvas = _Canvas(max(1, width - margin - 1))
    for points in drawn:
        canvas.draw(
            [(_share(time, start, end), _share(value, low, high)) for time, value in points]
        )
    return [f"{label:>{margin}} {row}" for label, row in zip(labels, canvas.rows(), strict=True)]


def _share(value: float, low: float, high: float) -> float:
    """Return the place of a value between two others, 0 to 1; the middle if they are equal."""
    # Halved before they are subtracted, as a difference of two floats may overflow.
    span = high / 2 - low / 2
    return min(1.0, max(0.0, (value / 2 - low / 2) / span)) if span > 0 else 0.5


class _Canvas:
    """Dots in rows of characters; the origin is at the lower left."""

    def __init__(self, columns: int) -> None:
        self._cells = [[_BLANK] * columns for _ in range(_ROWS)]
        self._right = 2 * columns - 1
        self._top = 4 * _ROWS - 1

    def draw(self, points: Points) -> None:
        """Draw a line through points with coordinates from 0 to 1, from left to right."""
        previous: tuple[int, int] | None = None
        for across, up in points:
            point = round(across * self._right), round(up * self._top)
            self._connect(previous or point, point)
            previous = point

    def rows(self) -> list[str]:
        """Return the rows of characters, the highest first."""
        return ["".join(map(chr, row)).replace(chr(_BLANK), " ") for row in self._cells]

    def _connect(self, first: tuple[int, int], last: tuple[int, int]) -> None:
        (x, y), (end_x, end_y) = first, last
        steps = max(abs(end_x - x), abs(end_y - y), 1)
        for step in range(steps + 1):
            self._set(round(x + (end_x - x) * step / steps), round(y + (end_y - y) * step / steps))

    def _set(self, x: int, y: int) -> None:
        from_top = self._top - y
        self._cells[from_top // 4][x // 2] |= _DOTS[from_top % 4][x % 2]


_PLAN_ROWS = 14
#: Room around the points, as a factor.
_MARGIN = 1.15
#: Marks, of which a later one covers an earlier one at the same place.
_OTHER, _PARETO, _BEST = "·", "o", "@"


def plan_chart(scatter: ClusterScatter, width: int) -> list[str]:
    """Draw dollars over hours, as lines of `width` characters at most; both are logarithmic."""
    points = sorted(scatter.points, key=lambda point: (point.is_best, point.is_pareto))
    hours, dollars = _ends([p.hours for p in points]), _ends([p.dollars for p in points])
    labels = {0: _dollars(dollars[1]), _PLAN_ROWS - 1: _dollars(dollars[0])}
    margin = max(map(len, labels.values()))
    columns = max(10, width - margin - 2)
    cells = [[" "] * columns for _ in range(_PLAN_ROWS)]
    for point in points:
        column = round(_position(point.hours, hours) * (columns - 1))
        row = _PLAN_ROWS - 1 - round(_position(point.dollars, dollars) * (_PLAN_ROWS - 1))
        cells[row][column] = _BEST if point.is_best else _PARETO if point.is_pareto else _OTHER
    lines = [f"{labels.get(n, ''):>{margin}} |{''.join(row)}" for n, row in enumerate(cells)]
    left, right = (f"{short_number(end)} h" for end in hours)
    between = " " * max(1, columns - len(left) - len(right))
    return [
        f"Price over time of {scatter.what}: {_BEST} recommended, {_PARETO} none is cheaper and "
        f"faster, {_OTHER} others",
        *(line.rstrip() for line in lines),
        f"{'':>{margin}} +{'-' * columns}",
        f"{'':>{margin}}  {left}{between}{right}",
    ]


def _dollars(value: float) -> str:
    return f"${short_number(value)}"


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of a logarithmic axis, with room around the points."""
    return min(values) / _MARGIN, max(values) * _MARGIN


def _position(value: float, axis: tuple[float, float]) -> float:
    """Return the position of a value on a logarithmic axis, 0 to 1."""
    low, high = (math.log(end) for end in axis)
    return (math.log(value) - low) / (high - low)
