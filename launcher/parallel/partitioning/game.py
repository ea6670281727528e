"""A bound for the best cuts, and cuts close to it, where a cost is the greatest of many sums.

One side cuts. The other chooses which sum counts: for a step, which way through its actions; for
memory, which rank at which time. Each in turn answers the mean of what the other has done before
("fictitious play", Brown 1951; Robinson 1951 proved that the means come together). Against a mean
of sums the best cuts are a shortest path, and since the greatest sum is no less than a mean, no
cuts at all cost less than this path does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from launcher.parallel.partitioning.chain import Table
from launcher.parallel.partitioning.paths import shortest
from launcher.parallel.partitioning.simulation import Numbers, Way, as_rows, costs_of

#: At most, and entries of tables that may be worked out: some seconds.
_ROUNDS, _ENTRIES = 60, 2 * 10**8


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """bound: what no cuts cost less than; infinite where there are none. ways: cuts, in order."""

    bound: float
    ways: tuple[Way, ...]


def play(
    tables: Sequence[Table],
    are_stages: Sequence[npt.NDArray[np.bool_]],
    answer: Callable[[Numbers], Numbers],
    first: Numbers,
) -> Outcome:
    """Play some rounds.

    tables: what stages cost, of several kinds. are_stages: for each stage, which there can be.
    answer: how often each stage's costs are in the greatest sum, for costs by stage and kind.
    first: such counts, those of a sum or a mean of some.
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
