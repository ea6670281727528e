"""A selection of log lines by time and text, and of the last ones."""

from __future__ import annotations

import re
import sys
from collections import deque
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import click

from launcher.client.cli.options.shared_options import age_option, gathered
from launcher.client.jobs import LogLine


class Printer(Protocol):
    """Prints log lines."""

    def __call__(self, line: LogLine) -> None:
        """Print a line."""
        ...

    def shows(self, line: LogLine) -> bool:
        """Return whether it prints a line."""
        ...

    def words(self, line: LogLine) -> str:
        """Return the text of a line that it prints, without group, host, time and colours."""
        ...


@dataclass(frozen=True, kw_only=True)
class WantedLines:
    """The lines that a user asks for.

    since: those printed at or after it. pattern: those in whose text, as it is printed, it is
    found. tail: of those that exist so far, only this many.
    """

    since: datetime | None
    pattern: re.Pattern[str] | None
    tail: int | None


class LineSelection:
    """Passes the wanted lines on to a printer.

    With `tail`, lines are kept back until `release` is called.
    """

    def __init__(self, wanted: WantedLines, printer: Printer) -> None:
        self._wanted = wanted
        self._printer = printer
        tail = None if wanted.tail is None else min(wanted.tail, sys.maxsize)
        self._kept = None if tail is None else deque[LogLine](maxlen=tail)

    def __call__(self, line: LogLine) -> None:
        """Take a line."""
        if self._wanted.since is not None and line.time < self._wanted.since.timestamp():
            return
        if not self._printer.shows(line):
            return
        pattern = self._wanted.pattern
        if pattern is not None and not pattern.search(self._printer.words(line)):
            return
        if self._kept is not None:
            self._kept.append(line)
        else:
            self._printer(line)

    def after_poll(self, _description: object) -> None:
        """Show the last lines so far, after a poll of the platform."""
        self.release()

    def release(self) -> None:
        """Show the last lines so far; later ones are shown as they come."""
        kept, self._kept = self._kept, None
        for line in kept or ():
            self._printer(line)


def _parse_pattern(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> re.Pattern[str] | None:
    """Compile a regular expression; a callback of --grep."""
    try:
        return None if text is None else re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise click.BadParameter(f"{text!r} is no regular expression: {error}") from None


#: --tail, --since and --grep, which a verb gets as one `wanted`.
line_selection_options = gathered(
    "wanted",
    WantedLines,
    click.option("--tail", type=click.IntRange(min=0), help="Only the last lines, this many."),
    age_option("Only lines printed within this time, for example 30s, 10m or 2h."),
    click.option(
        "--grep",
        "pattern",
        callback=_parse_pattern,
        metavar="REGEX",
        help="Only lines in which this is found.",
    ),
)
