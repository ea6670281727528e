"""HTML tables for notebooks; their colours are the notebook's own, light or dark."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from launcher.shared import printable


def html_table(rows: Iterable[str]) -> str:
    """Return a table of rows, each of which is HTML of cells."""
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def html_cells(kind: str, texts: Iterable[str]) -> str:
    """Return texts as cells of a row. kind: "th" or "td"."""
    return "".join(f"<{kind}>{escaped(text)}</{kind}>" for text in texts)


def escaped(text: str) -> str:
    """Return a text for a page: no tag of it is one, and no control character is left."""
    return escape(printable(text, keep_styles=False))


def html_pairs(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a table of a name and its value in each row, on the left."""
    left, lines = 'style="text-align:left"', 'style="text-align:left;white-space:pre-wrap"'
    return html_table(
        f"<th {left}>{escaped(name)}</th><td {lines}>{escaped(value)}</td>" for name, value in pairs
    )
