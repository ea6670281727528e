"""The cheapest cuts where each stage has its own cost table: dynamic programming."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from launcher.parallel.partitioning.chain import Table


@dataclass(frozen=True, kw_only=True)
class Path:
    """Cuts, with the maximum or the sum of their stages' costs."""

    cost: float
    cuts: tuple[int, ...]


def bottleneck(tables: Sequence[Table]) -> Path:
    """Return the cuts that minimise the maximum stage cost. tables: costs for each stage number."""
    return _search(tables, np.maximum)


def shortest(tables: Sequence[Table]) -> Path:
    """Return the cuts that minimise the sum of stage costs."""
    return _search(tables, np.add)


def _search(tables: Sequence[Table], together: Callable[..., Table]) -> Path:
    """Extend the best costs of the first modules stage by stage, then trace the cuts back."""
    costs: npt.NDArray[np.float64] = tables[0][0]
    choices = []
    for table in tables[1:]:
        every = together(costs[:, None], table)
        choices.append(np.argmin(every, axis=0))
        costs = np.min(every, axis=0)
    cuts: list[int] = []
    end = len(costs) - 1
    for choice in reversed(choices):
        end = int(choice[end])
        cuts.insert(0, end)
    return Path(cost=float(costs[-1]), cuts=tuple(cuts))
