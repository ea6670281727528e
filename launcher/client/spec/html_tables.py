"""HTML tables for notebooks; their colours are the notebook's own, light or dark."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def html_table(rows: Iterable[str]) -> str:
    """Return a table of rows, each of which is HTML of cells."""
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def html_cells(kind: str, texts: Iterable[str]) -> str:
    """Return texts as cells of a row. kind: "th" or "td"."""
    return "".join(f"<{kind}>{escape(text)}</{kind}>" for text in texts)


def html_pairs(pairs: Iterable[tuple[str, str]]) -> str:
    """Return a table of a name and its value in each row, on the left."""
    style = 'style="text-align:left"'
    return html_table(
        f"<th {style}>{escape(name)}</th><td {style}>{escape(value)}</td>" for name, value in pairs
    )
