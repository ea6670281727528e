"""The partition file: a model's measured costs and its cuts, as client and job read them.

Standard library only: this package is part of every job.
"""

from __future__ import annotations

from launcher.shared.partitions.partition_file import PartitionFile

__all__ = ["PartitionFile"]
