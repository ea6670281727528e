"""The cheapest ways to cut, where each stage has a cost of its own: dynamic programming."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from launcher.parallel.partitioning.chain import Table


@dataclass(frozen=True, kw_only=True)
class Path:
    """Cuts, and the greatest of their stages' costs, or the sum."""

    cost: float
    cuts: tuple[int, ...]


def bottleneck(tables: Sequence[Table]) -> Path:
    """The cuts with the least greatest stage. tables: costs of a stage, for each number."""
    return _search(tables, np.maximum)


def shortest(tables: Sequence[Table]) -> Path:
    """The cuts with the least sum of stages."""
    return _search(tables, np.add)


def _search(tables: Sequence[Table], together: Callable[..., Table]) -> Path:
    """Best costs of the first modules in so many stages, from those in one stage fewer."""
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
