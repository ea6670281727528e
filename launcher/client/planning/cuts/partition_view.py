"""The public class `launcher.Partition`, which shows itself in terminals and notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from launcher.client.planning.cuts import partition_table
from launcher.client.planning.cuts.partition_table import Table
from launcher.client.planning.cuts.timeline_picture import timeline_svg
from launcher.client.spec import escaped, html_table
from launcher.shared import PartitionFile

if TYPE_CHECKING:
    from launcher.shared import PartitionFile


class Partition(PartitionFile):
    """A model's cuts; as text its tables, in a notebook also the drawing of a step."""

    def __str__(self) -> str:
        return partition_text(self)

    def _repr_html_(self) -> str:
        return partition_html(self)


def partition_text(partition: PartitionFile) -> str:
    """Return the table of its stages, the notes and the other choices."""
    labelled = [f"{label:<9}{text}" for label, text in partition_table.notes(partition)]
    blocks = [_aligned(partition_table.stages(partition)), "\n".join(labelled)]
    if partition.choices:
        blocks.append(_aligned(partition_table.choices(partition)))
    return "\n\n".join(blocks)


def _aligned(shown: Table) -> str:
    columns = zip(shown.head, *shown.rows, strict=True)
    filled = [list(_filled(column, is_words=column[0] in shown.words)) for column in columns]
    return "\n".join("  ".join(line).rstrip() for line in zip(*filled, strict=True))


def _filled(cells: Sequence[str], *, is_words: bool) -> Iterator[str]:
    """Return the cells of a column, padded to one width."""
    width = max(map(len, cells))
    return (f"{cell:<{width}}" if is_words else f"{cell:>{width}}" for cell in cells)


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
