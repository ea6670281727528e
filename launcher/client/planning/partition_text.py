"""Text of a partition, for terminals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from launcher.client.planning import partition_table
from launcher.client.planning.partition_table import Table

if TYPE_CHECKING:
    from launcher.shared.partitions.partition_file import PartitionFile


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
