"""A small line chart as SVG, in the colour of the text around it."""

from __future__ import annotations

from collections.abc import Sequence

_WIDTH, _HEIGHT, _MARGIN = 160, 28, 2
#: Points of a line at most; between them, the largest and smallest values are kept.
_POINTS = 160


def sparkline(times: Sequence[float], values: Sequence[float]) -> str:
    """Return SVG of a line through finite values, by time; empty for fewer than two."""
    if len(values) < 2:
        return ""
    chosen = thinned(values)
    low, high = min(values), max(values)
    points = " ".join(
        f"{_place(times[index], times[0], times[-1], _WIDTH):.1f},"
        f"{_HEIGHT - _place(values[index], low, high, _HEIGHT):.1f}"
        for index in chosen
    )
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
        f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
    )


def _place(value: float, low: float, high: float, size: int) -> float:
    """Return where a value is between two others, in a length with margins."""
    span = high / 2 - low / 2  # halved, as a difference of two floats may overflow
    share = (value / 2 - low / 2) / span if span > 0 else 0.5
    return _MARGIN + share * (size - 2 * _MARGIN)


def thinned(values: Sequence[float]) -> list[int]:
    """Return the indices of the first, the last, and the extreme values of each part."""
    count = len(values)
    if count <= _POINTS:
        return list(range(count))
    found = {0, count - 1}
    parts = _POINTS // 2
    for part in range(parts):
        inside = range(part * count // parts, (part + 1) * count // parts)
        found |= {min(inside, key=values.__getitem__), max(inside, key=values.__getitem__)}
    return sorted(found)
