"""Options that take an age such as 90m, for a time that long ago."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import click

from launcher.client.cli.options.shared_options import Verb
from launcher.client.time_notation import seconds_of


def _parse_age(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> datetime | None:
    """Convert an age, such as 90m, to the time that long ago; a callback of --since."""
    if text is None:
        return None
    seconds = seconds_of(text)
    if seconds is None:
        raise click.BadParameter(f"{text!r} is not an age: write 90m, 12h or 2d")
    try:
        return datetime.now(timezone.utc) - timedelta(seconds=seconds)
    except OverflowError:
        raise click.BadParameter(f"{text!r} is too long ago: write 90m, 12h or 2d") from None


def age_option(help_text: str, *, name: str = "--since") -> Callable[[Verb], Verb]:
    """Return the decorator that adds an option for an age to a verb, which gets a time."""
    return click.option(name, callback=_parse_age, metavar="AGE", help=help_text)
