"""A lower bound for the best cuts, and cuts close to it, where a cost is the maximum of many sums.

One player cuts. The other chooses which sum counts: for a step, which path through its actions; for
memory, which rank at which time. Each in turn answers the average of the other's earlier moves
("fictitious play", Brown 1951; Robinson 1951 proved that the averages converge). Against an average
of sums the best cuts are a shortest path. The maximum sum is at least any average, so no cuts cost
less than this path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from launcher.parallel.partitioning.chain import Table
from launcher.parallel.partitioning.layer_paths import shortest
from launcher.parallel.partitioning.simulation import Numbers, Way, as_rows, costs_of

#: Limits on the rounds and on the table entries computed, a matter of seconds.
_ROUNDS, _ENTRIES = 60, 2 * 10**8


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a game.

    bound: a lower bound of the cost; infinite where no cuts exist. ways: the cuts, in order played.
    """

    bound: float
    ways: tuple[Way, ...]


def fictitious_play(
    tables: Sequence[Table],
    are_stages: Sequence[npt.NDArray[np.bool_]],
    answer: Callable[[Numbers], Numbers],
    first: Numbers,
) -> Outcome:
    """Play some rounds.

    tables: costs of stages, of several kinds. are_stages: for each stage, which ranges are allowed.
    answer: returns how often each stage's costs are in the maximum sum, for costs by stage and
    kind. first: such counts, of one sum or an average of several.
    """
    counts, costs, bound = first.copy(), np.zeros_like(first), 0.0
    ways: list[Way] = []
    rounds = min(_ROUNDS, 1 + _ENTRIES // (len(first) * tables[0].size))
    for number in range(1, rounds + 1):
        path = shortest(
            [
                np.where(can_be, np.tensordot(each, tables, axes=1), np.inf)
                for each, can_be in zip(counts, are_stages, strict=True)
            ]
        )
        bound = max(bound, path.cost)
        if np.isinf(bound):
            break
        ways.append(path.cuts)
        costs += (costs_of(tables, as_rows([path.cuts]))[0] - costs) / number
        counts += (answer(costs) - counts) / (number + 1)
    return Outcome(bound=bound, ways=tuple(ways))
