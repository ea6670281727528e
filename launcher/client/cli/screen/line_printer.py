"""Printers of log lines: as text, or each as one JSON object."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timezone

import click

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
