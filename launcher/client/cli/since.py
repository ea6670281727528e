"""Ages on the command line: 90m, 12h, 2d."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import click

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGE = re.compile(rf"(\d+)([{''.join(_UNITS)}])")


def moment(
    _context: click.Context, _parameter: click.Parameter, given: str | None
) -> datetime | None:
    """Convert an age to the time that long ago; the callback of an option."""
    if given is None:
        return None
    match = _AGE.fullmatch(given)
    if match is None:
        raise click.BadParameter(f"{given!r} is no length of time: write 90m, 12h or 2d")
    try:
        return datetime.now(timezone.utc) - timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        raise click.BadParameter(f"{given!r} is before all time: write 90m, 12h or 2d") from None
