"""A small line chart of Unicode's braille patterns, each character 2 dots wide and 4 high. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from launcher.client.jobs.short_numbers import short_number

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
