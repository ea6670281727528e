"""Partitioning of a model: the costs of its modules, and the best cuts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.parallel.partitioning.automatic import auto_partition
    from launcher.parallel.partitioning.chain import Chain
    from launcher.parallel.partitioning.decision import PartitionQuestion, decide
    from launcher.parallel.partitioning.optimum import CutProblem, Cuts, best
    from launcher.parallel.partitioning.simulated_search import fastest, search

__getattr__ = open_door(__name__)
