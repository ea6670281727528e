"""One line that a host printed, with its origin."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from launcher.shared import TEXT_MARK, format_event, parse_event


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """One line that one host printed, without its end of line.

    time: when it was printed, in seconds since the epoch.
    """

    group: str
    host: str
    text: str
    time: float

    @cached_property
    def event(self) -> tuple[str, dict[str, Any]] | None:
        """Name and fields of an event line of Launcher's own; None for any other line."""
        return parse_event(self.text)

    @property
    def readable(self) -> str:
        """The text for a reader who already sees group and host beside it."""
        if self.belongs_to_event:
            return self.text[len(TEXT_MARK) :]
        event = self.event
        if event is None:
            return self.text
        name, fields = event
        shown = {key: value for key, value in fields.items() if key not in ("group", "host")}
        return format_event(name, **shown)

    @property
    def is_event(self) -> bool:
        """True for one of Launcher's own event lines."""
        return self.event is not None

    @property
    def belongs_to_event(self) -> bool:
        """True for a line of an event's text, such as the traceback of a rank that failed."""
        return self.text.startswith(TEXT_MARK)
