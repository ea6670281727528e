"""Numbers and durations in few characters."""

from __future__ import annotations

import math

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k"))


def short_number(value: float) -> str:
    """Format a number with three digits, and from ten thousand on with a prefix.

    >>> [short_number(value) for value in (0.000123, 0.25, 1234.0, 45_600.0, -2.5e9)]
    ['0.000123', '0.25', '1234', '45.6k', '-2.5G']
    """
    size = abs(value)
    if math.isfinite(size) and size < 1e15:
        for least, prefix in _PREFIXES:
            if size >= least:
                scale = 1e3 if prefix == "k" else least
                return f"{value / scale:.3g}{prefix}"
        if size >= 1000:
            return f"{value:.0f}"
    return f"{value:.3g}"


def readable(seconds: float) -> str:
    """Format a number of seconds for a reader.

    >>> [readable(seconds) for seconds in (0.4, 42, 200, 10_021)]
    ['0s', '42s', '3m20s', '2h47m']
    """
    whole = max(0, int(seconds))
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minute:02d}m"
    return f"{minutes}m{second:02d}s" if minutes else f"{second}s"
