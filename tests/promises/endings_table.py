"""The rows of the table of endings, and how they are printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest


@dataclass(frozen=True, kw_only=True)
class Row:
    """What was seen of one cell; a cell without an ending says in `reason` why it has none."""

    cause: str
    who: str
    status: str = "-"
    exit_code: str = "-"
    seconds: str = "-"
    reason: str = ""


ROWS = pytest.StashKey[list[Row]]()


def printed(rows: Sequence[Row], width: int) -> Iterator[str]:
    """The table as lines of at most so many characters."""
    yield from (_line(row, width) for row in (_HEAD, *rows))


_HEAD = Row(
    cause="cause", who="who", status="status", exit_code="exit", seconds="seconds", reason="reason"
)


def _line(row: Row, width: int) -> str:
    reason = row.reason.splitlines()[0] if row.reason else ""
    line = (
        f"{row.cause:<13}{row.who:<16}{row.status:<10}{row.exit_code:>5}{row.seconds:>8}  {reason}"
    )
    return line if len(line) <= width else f"{line[: width - 3]}..."
