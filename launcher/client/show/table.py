"""A table is rows of cells under their columns, and notes; it is shown as HTML or as text.

The colours of HTML are the page's own, light or dark. In text each column is as wide as its widest
cell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from launcher.shared import printable

#: A label and a text; the label is empty where the text continues the one above.
Note = tuple[str, str]

_LEFT = ' style="text-align:left"'
#: The column at which the texts of notes begin.
NOTE_COLUMN = 9


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of cells, and the notes below them; either may be missing.

    numbers: the columns whose cells stand on the right.
    """

    title: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    numbers: Collection[str] = ()
    notes: Sequence[Note] = ()


class Markup(str):
    """A cell that is HTML already, such as a picture."""


def labelled(label: str, texts: Iterable[str]) -> Iterator[Note]:
    """Yield notes of one label, which only the first of them shows."""
    for number, text in enumerate(texts):
        yield "" if number else label, text


def table_html(table: Table) -> str:
    """Return the title, the rows, and the notes below them."""
    title = f"<b>{escaped(table.title)}</b>" if table.title else ""
    return f"{title}{rows_html(table) if table.rows else ''}{notes_html(table.notes)}"


def rows_html(table: Table) -> str:
    """Return the rows, words on the left; a notebook has numbers on the right."""
    styles = ["" if name in table.numbers else _LEFT for name in table.columns]
    body = (_row("td", row, styles) for row in table.rows)
    return f"<table>{_row('th', table.columns, styles)}{''.join(body)}</table>"


def notes_html(notes: Iterable[Note]) -> str:
    """Return a table of a label and its text in each row, or paragraphs without any label."""
    found = list(notes)
    if not any(label for label, _ in found):
        return "".join(f"<p>{escaped(text)}</p>" for _, text in found)
    lines = ' style="text-align:left;white-space:pre-wrap"'
    rows = (
        f"<tr><th{_LEFT}>{escaped(label)}</th><td{lines}>{escaped(text)}</td></tr>"
        for label, text in found
    )
    return f"<table>{''.join(rows)}</table>"


def escaped(text: str) -> str:
    """Return a text for a page: no tag of it is one, and no control character is left."""
    return text if isinstance(text, Markup) else escape(printable(text, keep_styles=False))


def _row(kind: str, cells: Sequence[str], styles: Sequence[str]) -> str:
    shown = [
        f"<{kind}{style}>{escaped(cell)}</{kind}>"
        for cell, style in zip(cells, styles, strict=True)
    ]
    return f"<tr>{''.join(shown)}</tr>"


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
