"""A table is rows of cells under their columns, and notes; it is shown as HTML or as text.

The colours of HTML are the page's own, light or dark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from launcher.shared import printable

#: A label and a text; the label is empty where the text continues the one above.
Note = tuple[str, str]

_LEFT = ' style="text-align:left"'


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of cells, and the notes below them; either may be missing.

    numbers: the columns whose cells stand on the right. On a terminal, least: the columns that are
    left out where they do not fit, the first one first; cut: those whose texts may lose their last
    words; colours: of cells with these texts.
    """

    title: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    numbers: Collection[str] = ()
    notes: Sequence[Note] = ()
    least: Sequence[str] = ()
    cut: Collection[str] = ()
    colours: Mapping[str, str] = field(default_factory=dict)


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
