"""Numbers in few characters."""

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
