"""A selection of log lines by time and text, and of the last ones."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import click

from launcher.client.jobs.log_line import LogLine


@dataclass
class LineSelection:
    """Passes on the lines that are wanted.

    show: takes a line; is_shown: returns whether it shows it. since: lines that were printed at or
    after it. pattern: is found in their text. tail: of those that exist so far, only this many,
    until `release` is called.
    """

    show: Callable[[LogLine], None]
    is_shown: Callable[[LogLine], bool]
    since: datetime | None
    pattern: re.Pattern[str] | None
    tail: int | None
    _kept: deque[LogLine] | None = field(init=False)

    def __post_init__(self) -> None:
        self._kept = None if self.tail is None else deque(maxlen=self.tail)

    def __call__(self, line: LogLine) -> None:
        """Take a line."""
        if self.since is not None and line.time < self.since.timestamp():
            return
        if self.pattern is not None and not self.pattern.search(line.readable):
            return
        if not self.is_shown(line):
            return
        if self._kept is not None:
            self._kept.append(line)
        else:
            self.show(line)

    def release(self) -> None:
        """Show the last lines so far; later ones are shown as they come."""
        kept, self._kept = self._kept, None
        for line in kept or ():
            self.show(line)


def parse_pattern(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> re.Pattern[str] | None:
    """Compile a regular expression; a callback of --grep."""
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise click.BadParameter(f"{text!r} is no regular expression: {error}") from None
