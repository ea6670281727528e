"""Durations in readable form."""

from __future__ import annotations


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
