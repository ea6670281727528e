"""The public class `launcher.Partition`, which shows itself in terminals and notebooks."""

from __future__ import annotations

from launcher.client.planning.partition_html import partition_html
from launcher.client.planning.partition_text import partition_text
from launcher.shared.partitions import PartitionFile


class Partition(PartitionFile):
    """A model's cuts; as text its tables, in a notebook also the drawing of a step."""

    def __str__(self) -> str:
        return partition_text(self)

    def _repr_html_(self) -> str:
        return partition_html(self)
