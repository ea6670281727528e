"""A partition as a notebook shows it."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from launcher.partitions import table
from launcher.partitions.drawing import timeline_svg
from launcher.partitions.table import Table

if TYPE_CHECKING:
    from launcher.partitions.partition import Partition


def partition_html(partition: Partition) -> str:
    """The tables, and the picture of a step."""
    drawn = timeline_svg(partition.timeline, table.title(partition))
    parts = [
        _table(table.stages(partition)),
        _rows(_cells("td", note) for note in table.notes(partition)),
        f'<div style="overflow-x:auto">{drawn}</div>',
    ]
    if partition.choices:
        parts.append(_table(table.choices(partition)))
    return "".join(parts)


def _table(shown: Table) -> str:
    return _rows([_cells("th", shown.head), *(_cells("td", row) for row in shown.rows)])


def _rows(rows: Iterable[str]) -> str:
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _cells(kind: str, texts: Iterable[str]) -> str:
    return "".join(f"<{kind}>{escape(text)}</{kind}>" for text in texts)
