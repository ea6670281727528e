"""Enumeration of the cuts that could be better than the best known ones.

The time of a step is at least any weighted average of the paths through its actions, which is a sum
over the stages. So the first cuts of a model can be discarded together with all that follow them,
where such a sum with the cheapest rest is not below the best step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from launcher.parallel.partitioning.simulation import Numbers, Ways


class EffortSpent(Exception):
    """There are more candidates than may be looked at."""


@dataclass(kw_only=True)
class PossibleCuts:
    """Cuts whose sums are all below a ceiling, which may be lowered meanwhile.

    tables: for each of several sums and each stage, the costs of the ranges between places;
    infinite where there can be no stage. effort: sums that may be worked out.
    """

    tables: Numbers
    ceiling: float
    effort: int

    @cached_property
    def _rest(self) -> Numbers:
        """The least sums of a stage and all later ones, by the place where it begins."""
        sums, stages, size = self.tables.shape[:3]
        rest = np.full((sums, stages + 1, size), np.inf)
        rest[:, stages, -1] = 0.0
        for stage in reversed(range(stages)):
            rest[:, stage] = (self.tables[:, stage] + rest[:, stage + 1, None, :]).min(axis=2)
        return rest

    def __iter__(self) -> Iterator[Ways]:
        """Yield the cuts, some at a time. Raises EffortSpent."""
        sums, stages, size = self.tables.shape[:3]
        at_once = max(1, 2**20 // (sums * size))
        start: tuple[Ways, Numbers] = (np.zeros((1, 1), dtype=np.int64), np.zeros((1, sums)))
        stack = [start]
        while stack:
            ways, costs = stack.pop()
            if ways.shape[1] == stages:
                yield ways[:, 1:]
                continue
            for first in reversed(range(0, len(ways), at_once)):
                some = slice(first, first + at_once)
                stack += self._longer(ways[some], costs[some])

    def _longer(self, ways: Ways, costs: Numbers) -> Sequence[tuple[Ways, Numbers]]:
        """Return the same cuts with one more, the best last; none if there are none."""
        stage = ways.shape[1] - 1
        costs = costs[:, :, None] + self.tables[:, stage, ways[:, -1], :].swapaxes(0, 1)
        least = (costs + self._rest[None, :, stage + 1]).max(axis=1)
        self.effort -= costs.size
        if self.effort < 0:
            raise EffortSpent
        rows, places = np.nonzero(least < self.ceiling)
        order = np.argsort(least[rows, places], kind="stable")
        rows, places = rows[order], places[order]
        if not len(rows):
            return ()
        return ((np.column_stack((ways[rows], places)), costs[rows, :, places]),)
