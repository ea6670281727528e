"""Tables as lines of text, each column as wide as its widest cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from launcher.client.show.table import Note, Table
from launcher.shared import printable

#: The column at which the texts of notes begin.
NOTE_COLUMN = 9


def table_text(table: Table, *, width: int | None = None, note_column: int = NOTE_COLUMN) -> str:
    """Return the title, the rows, and the notes below an empty line.

    width: if the rows are wider, each gets a line for each of its cells.
    """
    lines = _aligned(table) if table.rows else []
    if width is not None and max(map(len, lines), default=0) > width:
        lines = list(_stacked(table))
    below = [*([""] if lines else []), *note_lines(table.notes, note_column)] if table.notes else []
    return "\n".join([*([table.title] if table.title else []), *lines, *below])


def note_lines(notes: Iterable[Note], column: int = NOTE_COLUMN) -> list[str]:
    """Return each note as a line: its label, then its text at a column; at 0 without any label."""
    found = list(notes)
    width = column if any(label for label, _ in found) else 0
    return [f"{label:<{width}}{text}" for label, text in found]


def _aligned(table: Table) -> list[str]:
    rows = [*([table.columns] if table.columns else []), *table.rows]
    shown = [[printable(cell, keep_styles=False) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    names = table.columns or rows[0]
    sides = [">" if name in table.numbers else "<" for name in names]
    return ["  ".join(map(_padded, row, sides, widths)).rstrip() for row in shown]


def _padded(cell: str, side: str, width: int) -> str:
    return f"{cell:{side}{width}}"


def _stacked(table: Table) -> Iterator[str]:
    width = max(map(len, table.columns[1:]))
    for first, *others in table.rows:
        yield first
        for name, cell in zip(table.columns[1:], others, strict=True):
            if cell:
                yield f"  {name:<{width}}  {cell}"
