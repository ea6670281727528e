"""The notation of a length of time, such as 90s, 10m, 12h, 7d or 4w."""

from __future__ import annotations

import re

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
#: 18 digits are longer than any calendar, and int() refuses thousands of them.
_LENGTH = re.compile(rf"(\d{{1,18}})([{''.join(_SECONDS)}])")


def seconds_of(text: str) -> int | None:
    """Return the seconds of a length of time; None for other texts.

    >>> [seconds_of(text) for text in ("90s", "10m", "4w", "10")]
    [90, 600, 2419200, None]
    """
    match = _LENGTH.fullmatch(text)
    return int(match[1]) * _SECONDS[match[2]] if match else None
