"""What was measured of a model and where it is to be cut, as both worlds read it.

Standard library only: this package travels with every job.
"""

from __future__ import annotations

from launcher.partitions.partition import Partition

__all__ = ["Partition"]
