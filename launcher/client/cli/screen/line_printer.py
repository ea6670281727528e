"""Log lines on the terminal: their selection by time and text, and their print as text or JSON."""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Protocol

import click

from launcher.client.cli.options.shared_options import age_option, gathered
from launcher.client.cli.screen.verb_output import print_json_line
from launcher.client.jobs import HostGroup, LogLine, sentence
from launcher.shared import printable

#: One colour per group, in group order.
_GROUP_COLOURS = ("cyan", "magenta", "yellow", "green", "blue")


class LinePrinter:
    """Prints log lines behind "group/host |", one colour per group.

    verbose: with Launcher's own events; otherwise only some of them, in words. with_time: behind
        the local time.
    """

    def __init__(
        self,
        groups: Sequence[HostGroup],
        write: Callable[[str], None],
        *,
        verbose: bool,
        with_time: bool = False,
    ) -> None:
        self._groups = [group.name for group in groups]
        prefixes = [f"{group.name}/{host}" for group in groups for host in group.hosts]
        self._width = max(map(len, prefixes), default=0)  # a serverless job has no known hosts
        self._write = write
        self._verbose = verbose
        self._with_time = with_time

    def __call__(self, line: LogLine) -> None:
        """Print one line, unless it is an event that is not shown."""
        text = self._text(line)
        if text is not None:
            prefix = self._prefix(line.group, line.host)
            printed = datetime.fromtimestamp(line.time)
            when = f"{printed:%Y-%m-%d %H:%M:%S} " if self._with_time else ""
            self._write(f"{when}{prefix} {text}")

    def shows(self, line: LogLine) -> bool:
        """Return whether a line is printed, without the work of printing it."""
        return self._verbose or line.event is None or sentence(*line.event) is not None

    def words(self, line: LogLine) -> str:
        """Return the text of a line as it is printed, without colours."""
        return click.unstyle(self._text(line) or "")

    def _text(self, line: LogLine) -> str | None:
        event = line.event
        if event is None:
            return printable(line.readable)
        if self._verbose:
            # Dim Launcher's own lines so that the user's stand out.
            return click.style(printable(line.readable), dim=True)
        words = sentence(*event)
        return None if words is None else printable(words, keep_styles=False)

    def _prefix(self, group: str, host: str) -> str:
        """Return "data_group/algo-1  |" in the group's colour, the name padded."""
        is_known = group in self._groups
        number = self._groups.index(group) % len(_GROUP_COLOURS) if is_known else None
        colour = None if number is None else _GROUP_COLOURS[number]
        return click.style(printable(f"{group}/{host}").ljust(self._width) + " |", fg=colour)


class JsonLinePrinter:
    """Prints log lines as JSON objects."""

    def __call__(self, line: LogLine) -> None:
        """Print one line."""
        described: dict[str, object] = {
            "time": datetime.fromtimestamp(line.time, tz=timezone.utc),
            "group": line.group,
            "host": line.host,
            "text": line.text,
        }
        if (event := line.event) is not None:
            described["event"], described["fields"] = event
        print_json_line(described)

    def shows(self, _line: LogLine) -> bool:
        """Return True: every line is printed."""
        return True

    def words(self, line: LogLine) -> str:
        """Return the text of a line for a reader, in which colours are no part of words."""
        return printable(line.readable, keep_styles=False)


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
