"""Bounds of the best cuts where a cost is the maximum of many sums, and cuts close to them.

A game gives a lower bound. One player cuts. The other chooses which sum counts: for a step, which
path through its actions; for memory, which rank at which time. The game between the cuts and sums
found so far is solved, and each player adds the best answer to the other's mixture ("double
oracle", McMahan, Gordon and Blum 2003). Against a mixture of sums the best cuts are a shortest
path. The maximum sum is at least any mixture of sums, so no cuts cost less than this path.

For the same reason, the first cuts of a model can be discarded together with all that follow them,
where such a mixture with the cheapest rest is not below the best cost that is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from launcher.parallel.partitioning.chain import Table
from launcher.parallel.partitioning.optimum import shortest
from launcher.parallel.partitioning.simulation import Numbers, Way, Ways, as_rows, costs_of

#: Limits on the rounds and on the table entries computed, a matter of seconds.
_ROUNDS, _ENTRIES = 60, 4 * 10**8
#: Rounds in which the game between the cuts and sums found so far is solved.
_INNER_ROUNDS = 150
#: The game ends when the bound is this close to the cost of a mixture of cuts.
_CLOSE = 1e-6
#: Mixtures of sums that are kept.
_KEPT = 3


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a game.

    bound: a lower bound of the cost; infinite where no cuts exist. ways: the cuts, in order played.
    counts: mixtures of sums that have led to the highest bounds.
    """

    bound: float
    ways: tuple[Way, ...]
    counts: tuple[Numbers, ...] = ()


def play_game(
    tables: Sequence[Table],
    are_stages: Sequence[npt.NDArray[np.bool_]],
    answer: Callable[[Numbers], Numbers],
    first: Numbers,
    entries: int = _ENTRIES,
) -> Outcome:
    """Play some rounds.

    tables: costs of stages, of several kinds. are_stages: for each stage, which ranges are allowed.
    answer: returns how often each stage's costs are in the maximum sum, for costs by stage and
    kind. first: such counts, of one sum or a mixture of several. entries: table entries that may
    be computed.
    """
    sums, costs, bound = [first], np.zeros((0, *first.shape)), 0.0
    ways: list[Way] = []
    played: list[tuple[float, int, Numbers]] = []
    of_sums, of_costs = np.ones(1), np.zeros(0)
    rounds = min(_ROUNDS, 1 + min(entries, _ENTRIES) // (len(first) * tables[0].size))
    for number in range(rounds):
        mixture = np.tensordot(of_sums, np.array(sums), axes=1)
        path = shortest(
            [
                np.where(can_be, np.tensordot(each, tables, axes=1), np.inf)
                for each, can_be in zip(mixture, are_stages, strict=True)
            ]
        )
        bound = max(bound, path.cost)
        if np.isinf(bound):
            break
        ways.append(path.cuts)
        played = sorted([*played, (-path.cost, number, mixture)])[:_KEPT]
        new = costs_of(tables, as_rows([path.cuts]))
        mixed = np.tensordot(of_costs, costs, axes=1) if number else new[0]
        costs = np.concatenate([costs, new])
        sums.append(answer(mixed))
        if bound >= (sums[-1] * mixed).sum() * (1 - _CLOSE):
            break
        of_sums, of_costs = _solve(sums, costs)
    return Outcome(bound=bound, ways=tuple(ways), counts=tuple(each for *_, each in played))


def _solve(sums: Sequence[Numbers], costs: Numbers) -> tuple[Numbers, Numbers]:
    """Return mixtures of sums and of cuts that are nearly the best against each other.

    By regret matching (Tammelin 2014), in which later rounds count more.
    """
    payoffs = np.tensordot(np.array(sums), costs, axes=([1, 2], [1, 2]))
    payoffs = payoffs / max(float(payoffs.max()), 1e-300)
    regrets = [np.zeros(size) for size in payoffs.shape]
    totals = [np.zeros(size) for size in payoffs.shape]
    for number in range(1, _INNER_ROUNDS + 1):
        of_sums = _shares(regrets[0])
        gains = of_sums @ payoffs
        of_costs = _shares(regrets[1])
        regrets[1] = np.maximum(regrets[1] + gains @ of_costs - gains, 0.0)
        of_costs = _shares(regrets[1])
        gains = payoffs @ of_costs
        regrets[0] = np.maximum(regrets[0] + gains - of_sums @ gains, 0.0)
        totals[0] += number * of_sums
        totals[1] += number * of_costs
    return _shares(totals[0]), _shares(totals[1])


def _shares(weights: Numbers) -> Numbers:
    total = weights.sum()
    return weights / total if total else np.full(len(weights), 1 / len(weights))


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
