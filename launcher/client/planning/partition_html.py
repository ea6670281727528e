"""HTML of a partition, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from launcher.client.planning import partition_table
from launcher.client.planning.partition_table import Table
from launcher.client.planning.timeline_picture import timeline_svg
from launcher.client.spec.html_tables import escaped, html_table

if TYPE_CHECKING:
    from launcher.shared.partitions.partition_file import PartitionFile


def partition_html(partition: PartitionFile) -> str:
    """Return the tables and the drawing of a step."""
    drawn = timeline_svg(partition.timeline, partition_table.title(partition))
    parts = [
        _table(partition_table.stages(partition)),
        html_table(map(_words, partition_table.notes(partition))),
        f'<div style="overflow-x:auto">{drawn}</div>',
    ]
    if partition.choices:
        parts.append(_table(partition_table.choices(partition)))
    return "".join(parts)


def _table(shown: Table) -> str:
    sides = ["left" if name in shown.words else "right" for name in shown.head]
    body = (map(_cell, row, sides) for row in shown.rows)
    return html_table("".join(row) for row in (map(_heading, shown.head, sides), *body))


def _words(texts: Iterable[str]) -> str:
    return "".join(_cell(text, "left") for text in texts)


def _heading(text: str, side: str) -> str:
    return f'<th style="text-align:{side}">{escaped(text)}</th>'


def _cell(text: str, side: str) -> str:
    return f'<td style="text-align:{side}">{escaped(text)}</td>'
