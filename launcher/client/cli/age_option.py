"""The option --since, which takes an age such as 90m."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import click

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGE = re.compile(rf"(\d+)([{''.join(_UNITS)}])")


def parse_age(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> datetime | None:
    """Convert an age, such as 90m, to the time that long ago; a callback of --since."""
    if text is None:
        return None
    match = _AGE.fullmatch(text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not an age: write 90m, 12h or 2d")
    try:
        return datetime.now(timezone.utc) - timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        raise click.BadParameter(f"{text!r} is too long ago: write 90m, 12h or 2d") from None


since_option = click.option(
    "--since",
    callback=parse_age,
    metavar="AGE",
    help="Only jobs created within this time, for example 90m, 12h or 2d.",
)
