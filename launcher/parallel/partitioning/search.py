"""Good cuts where ranks have several stages, or no bubble: a search, and a bound for what it finds.

What a step takes is no sum over stages there, but the longest of many ways through its actions, and
the memory of a rank is that of several stages. So cuts are simulated: all of them where they are
few, and else those that a game leads to, moved for as long as that makes them better.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from launcher.contract import Objective
from launcher.errors import ParallelError
from launcher.parallel.partitioning.chain import Chain
from launcher.parallel.partitioning.game import Outcome, play
from launcher.parallel.partitioning.optimum import Cuts
from launcher.parallel.partitioning.paths import bottleneck
from launcher.parallel.partitioning.simulation import Simulation, Way, Ways, as_rows, costs_of
from launcher.partitions.orders import Orders

#: Actions that may be simulated to try all cuts.
ALL = 10**8
#: Of the cuts that the games lead to, how many are moved.
_STARTS = 16
#: Ways to cut that are simulated at once.
_AT_ONCE = 4096


@dataclass(frozen=True, kw_only=True)
class Bounded(Cuts):
    """Cuts, and the seconds below which there is no step with so much memory."""

    bound: float

    @property
    def gap(self) -> float:
        """How far the step may be above the best one, as a share of that."""
        return self.step / self.bound - 1.0 if self.bound else 0.0


class _Tried(NamedTuple):
    """A way to cut, and what it costs: the least is the best. excess: bytes that are too many."""

    excess: float
    step: float
    way: Way


def search(
    chain: Chain,
    orders: Orders,
    objective: Objective,
    *,
    cap: float = math.inf,
    effort: int = ALL,
) -> Bounded:
    """Cuts for the shortest step; or for the least memory, and of these the shortest step.

    cap: bytes that a rank may have. effort: actions that may be simulated to try all cuts; where
    that takes more, there may be better cuts than those found. Raises ParallelError.
    """
    simulation = Simulation(chain=chain, orders=orders)
    if orders.stages > simulation.cuts + 1:
        raise ParallelError(
            f"the model has {simulation.cuts} places where it can be cut, so not {orders.stages} "
            f"stages ({orders.virtual_stages} on each of {orders.ranks} ranks): use fewer"
        )
    found = _found(simulation, cap if objective is Objective.SPEED else 0.0, effort)
    if found.memory > cap:
        raise ParallelError(_infeasible(simulation, found.memory, cap, effort))
    return replace(found, places=tuple(int(simulation.places[each]) for each in found.places))


def _found(simulation: Simulation, allowed: float, effort: int) -> Bounded:
    """The cuts with the fewest bytes that are not allowed, and then the shortest step.

    places: as the simulation counts them.
    """
    if _actions(simulation) <= effort:
        best = _best(simulation, allowed)
        bound = best.step
    else:
        race = _race(simulation, allowed or math.inf)
        squeeze = () if math.isinf(allowed) else _squeeze(simulation).ways
        best = _led(simulation, {_even(simulation), *race.ways, *squeeze}, allowed)
        bound = race.bound
    memory = float(simulation.memory(as_rows([best.way]))[0])
    if not allowed and bound < best.step:
        bound = _race(simulation, memory).bound
    return Bounded(places=best.way, step=best.step, memory=memory, bound=min(bound, best.step))


def _infeasible(simulation: Simulation, least: float, cap: float, effort: int) -> str:
    orders = simulation.orders
    does = "need" if _actions(simulation) <= effort else "were found to need"
    more = _least_ranks(simulation, cap, effort)
    mend = f"use {more}" if more else "no number of ranks would do: recompute, or shard"
    return (
        f"{orders.ranks} ranks with {orders.virtual_stages} stages each {does} {least:.0f} bytes "
        f"at least, and may have {cap:.0f}: {mend}"
    )


def _least_ranks(simulation: Simulation, cap: float, effort: int) -> int | None:
    """The fewest ranks that the model is found to fit into."""
    for ranks in range(1, (simulation.cuts + 1) // simulation.orders.virtual_stages + 1):
        if ranks == simulation.orders.ranks:
            continue
        try:
            orders = replace(simulation.orders, ranks=ranks)
        except ParallelError:  # the schedule has no such number with so many microbatches
            continue
        if _does_fit(replace(simulation, orders=orders), cap, effort):
            return ranks
    return None


def _does_fit(simulation: Simulation, cap: float, effort: int) -> bool:
    if _actions(simulation) <= effort:
        return _best(simulation, cap).excess <= 0
    squeeze = _squeeze(simulation)
    return squeeze.bound <= cap and _led(simulation, set(squeeze.ways), cap).excess <= 0


# All cuts --------------------------------------------------------------------------------------


def _actions(simulation: Simulation) -> int:
    """That are simulated to try all cuts."""
    ways = math.comb(simulation.cuts, simulation.orders.stages - 1)
    return ways * len(simulation.orders.queue)


def _best(simulation: Simulation, allowed: float) -> _Tried:
    """Of all cuts there are."""
    every = itertools.combinations(range(1, simulation.cuts + 1), simulation.orders.stages - 1)
    best = _Tried(math.inf, math.inf, ())
    while some := list(itertools.islice(every, _AT_ONCE)):
        best = min(best, _sorted(simulation, as_rows(some), allowed)[0])
    return best


def _sorted(simulation: Simulation, ways: Ways, allowed: float, count: int = 1) -> list[_Tried]:
    """The best of some cuts."""
    excess = np.zeros(len(ways))
    if not math.isinf(allowed):
        excess = np.maximum(0.0, simulation.memory(ways) - allowed)
    steps = simulation.steps(ways)
    return [
        _Tried(float(excess[at]), float(steps[at]), tuple(map(int, ways[at])))
        for at in np.lexsort((steps, excess))[:count]
    ]


# Some cuts -------------------------------------------------------------------------------------


def _led(simulation: Simulation, ways: set[Way], allowed: float) -> _Tried:
    """The best cuts that moves lead to, from the best of some: few moves of many, then many."""
    found = _sorted(simulation, as_rows(sorted(ways)), allowed, _STARTS)
    cuts = simulation.orders.stages - 1
    for moves, count in ((_together(cuts), _STARTS), (_apart(cuts), _STARTS // 4)):
        moved = {_moved(simulation, start, moves, allowed) for start in found[:count]}
        found = sorted(moved)
    return found[0]


def _race(simulation: Simulation, cap: float) -> Outcome:
    """The game for a short step. It begins with the time of all ranks, in the mean."""
    fit = [simulation.are_stages & each for each in simulation.fitting(cap)]
    orders = simulation.orders
    first = np.full((orders.stages, len(simulation.times)), orders.microbatches / orders.ranks)
    return play(simulation.times, fit, simulation.slowest, first)


def _squeeze(simulation: Simulation) -> Outcome:
    """The game for the least memory. It begins with that of even stages."""
    stages = [simulation.are_stages] * simulation.orders.stages
    first = simulation.fullest(costs_of(simulation.sizes, as_rows([_even(simulation)]))[0])
    return play(simulation.sizes, stages, simulation.fullest, first)


def _even(simulation: Simulation) -> Way:
    """Stages that take about as long: the slowest is as fast as can be."""
    table = np.where(simulation.are_stages, sum(simulation.times), np.inf)
    return bottleneck([table] * simulation.orders.stages).cuts


def _moved(simulation: Simulation, start: _Tried, moves: Ways, allowed: float) -> _Tried:
    """The cuts that no move makes better."""
    best = start
    while True:
        ways = as_rows([best.way]) + moves
        ends = np.pad(ways, ((0, 0), (1, 1)), constant_values=((0, 0), (0, simulation.cuts + 1)))
        (found,) = _sorted(simulation, ways[(np.diff(ends) > 0).all(axis=1)], allowed)
        if found >= best:
            return best
        best = found


def _together(cuts: int) -> Ways:
    """How far each cut goes: none, and neighbours as far as each other."""
    numbers = np.arange(cuts)
    moves = [
        far * ((numbers >= first) & (numbers <= last))
        for first, last in itertools.combinations_with_replacement(range(cuts), 2)
        for far in (-16, -4, -2, -1, 1, 2, 4, 16)
    ]
    return np.vstack([0 * numbers, *moves])


def _apart(cuts: int) -> Ways:
    """How far each cut goes, where any two go their own ways, too."""
    numbers = np.arange(cuts)
    moves = [
        one * (numbers == first) + other * (numbers == last)
        for first, last in itertools.combinations(range(cuts), 2)
        for one, other in itertools.product((-2, -1, 1, 2), repeat=2)
    ]
    return np.vstack([_together(cuts), *moves])
