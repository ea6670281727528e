"""The clusters of a recommendation as a picture in a terminal."""

from __future__ import annotations

from launcher.client.jobs import short_number
from launcher.client.planning import ClusterScatter, position

_ROWS = 14
#: Marks, of which a later one covers an earlier one at the same place.
_OTHER, _PARETO, _BEST = "·", "o", "@"


def plan_chart(scatter: ClusterScatter, width: int) -> list[str]:
    """Draw dollars over hours, as lines of `width` characters at most; both are logarithmic."""
    labels = {0: _dollars(scatter.dollars[1]), _ROWS - 1: _dollars(scatter.dollars[0])}
    margin = max(map(len, labels.values()))
    columns = max(10, width - margin - 2)
    cells = [[" "] * columns for _ in range(_ROWS)]
    for point in scatter.in_drawing_order:
        column = round(position(point.hours, scatter.hours) * (columns - 1))
        row = _ROWS - 1 - round(position(point.dollars, scatter.dollars) * (_ROWS - 1))
        cells[row][column] = _BEST if point.is_best else _PARETO if point.is_pareto else _OTHER
    lines = [f"{labels.get(n, ''):>{margin}} |{''.join(row)}" for n, row in enumerate(cells)]
    left, right = (f"{short_number(end)} h" for end in scatter.hours)
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
