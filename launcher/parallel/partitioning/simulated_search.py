"""Search for the cuts with the shortest simulated step, with a lower bound.

The time of a step is not a sum over stages but the longest of many paths through its actions, and
the memory of a rank may be that of several stages. So cuts are simulated: all of them if they are
few, else those that a game leads to, improved by local moves as long as that helps. Then
those that could be better are counted out, which proves the best ones as far as the effort allows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from launcher.errors import ParallelError
from launcher.parallel.partitioning.chain import Chain
from launcher.parallel.partitioning.cut_bounds import EffortSpent, Outcome, PossibleCuts, play_game
from launcher.parallel.partitioning.optimum import Cuts, bottleneck
from launcher.parallel.partitioning.simulation import Simulation, Way, Ways, as_rows, costs_of
from launcher.shared import Objective, Orders

#: Actions that may be simulated to try all cuts.
ALL = 10**8
#: How many of the cuts that the games lead to are improved by moves.
_STARTS = 16
#: Cuts that are simulated at once.
_AT_ONCE = 4096
#: Table entries that a game may compute, however little effort is allowed for the rest.
_LEAST_GAME = 4 * 10**7
#: Relative difference of seconds that were summed in another order.
_ROUNDING = 1e-11


@dataclass(frozen=True, kw_only=True)
class Bounded(Cuts):
    """Cuts with a lower bound of the seconds of any step within the same memory.

    memory_bound: bytes that the largest rank needs at least, where that is the objective.
    """

    bound: float
    memory_bound: float | None = None

    @property
    def gap(self) -> float:
        """The most that the step can be above the optimum, as a fraction of it."""
        return self.step / self.bound - 1.0 if self.bound else 0.0

    @property
    def memory_gap(self) -> float:
        """The most that the memory can be above the least, where that is the objective."""
        return self.memory / self.memory_bound - 1.0 if self.memory_bound else 0.0


class _Tried(NamedTuple):
    """Cuts and their costs; the minimum is the best. excess: bytes above the limit."""

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
    """Return the cuts with the shortest step, or with the least memory and then the shortest step.

    cap: bytes allowed per rank. effort: actions that may be simulated to try all cuts; where that
    takes more, there may be better cuts than those found. Raises ParallelError.
    """
    simulation = Simulation(chain=chain, orders=orders)
    if orders.stages > simulation.cuts + 1:
        raise ParallelError(
            f"the model cannot be cut into {orders.stages} stages ({orders.virtual_stages} on each "
            f"of {orders.ranks} ranks), since it has {simulation.cuts} places where it can be cut: "
            "use fewer stages"
        )
    found = _found(simulation, cap if objective is Objective.SPEED else 0.0, effort)
    if found.memory > cap:
        raise ParallelError(_infeasible(simulation, found.memory, cap, effort))
    return replace(found, places=tuple(int(simulation.places[each]) for each in found.places))


def _found(simulation: Simulation, allowed: float, effort: int) -> Bounded:
    """Return the cuts with the least excess of bytes, and then the shortest step.

    places: as the simulation counts them.
    """
    if _actions(simulation) <= effort:
        best = _best(simulation, allowed)
        bound = best.step
    else:
        memory_game = (
            _memory_game(simulation) if math.isfinite(allowed) else Outcome(bound=0, ways=())
        )
        starts = set(memory_game.ways)
        if allowed:
            best, bound = _shortest(simulation, starts, allowed, effort)
        else:
            time_game = _time_game(simulation, math.inf, effort)
            best = _improved(simulation, {_even(simulation), *time_game.ways, *starts}, allowed)
            bound = time_game.bound
    memory = float(simulation.memory(as_rows([best.way]))[0])
    least = None if allowed else memory
    if not allowed and bound < best.step:
        bound, least = _time_game(simulation, memory, effort).bound, min(memory, memory_game.bound)
    return _bounded(best, memory, bound, least)


def _bounded(best: _Tried, memory: float, bound: float, least: float | None = None) -> Bounded:
    """Return the best cuts; a bound that differs from their step by rounding only is the step."""
    bound = best.step if bound * (1 + _ROUNDING) >= best.step else bound
    return Bounded(places=best.way, step=best.step, memory=memory, bound=bound, memory_bound=least)


def fastest(
    chain: Chain,
    orders: Orders,
    near: Sequence[int],
    *,
    cap: float = math.inf,
    bound: float = 0.0,
    effort: int = ALL,
) -> Bounded:
    """Return the cuts with the shortest step, for one stage on each rank.

    near: places of cuts within the cap, to start from. bound: seconds that no step is below, if
    known. cap, effort: as for `search`.
    """
    simulation = Simulation(chain=chain, orders=orders)
    start = tuple(int(each) for each in np.searchsorted(simulation.places, near))
    best = _sorted(simulation, as_rows([start]), cap)[0]
    if bound * (1 + _ROUNDING) < best.step:
        found = _shortest(simulation, {start}, cap, effort)
        best, bound = found[0], max(bound, found[1])
    memory = float(simulation.memory(as_rows([best.way]))[0])
    found_places = tuple(int(simulation.places[each]) for each in best.way)
    return replace(_bounded(best, memory, bound), places=found_places)


def _shortest(
    simulation: Simulation, starts: set[Way], allowed: float, effort: int
) -> tuple[_Tried, float]:
    """Return the cuts with the shortest step within the memory allowed, and a lower bound of it."""
    if _actions(simulation) <= effort:
        best = _best(simulation, allowed)
        return best, best.step
    time_game = _time_game(simulation, allowed, effort)
    best = _improved(simulation, {_even(simulation), *time_game.ways, *starts}, allowed)
    if best.excess:
        return best, time_game.bound
    return _ruled_out(simulation, time_game, best, allowed, effort)


def _infeasible(simulation: Simulation, least: float, cap: float, effort: int) -> str:
    orders = simulation.orders
    does = "need" if _actions(simulation) <= effort else "were found to need"
    more = _least_ranks(simulation, cap, effort)
    fix = f"use {more}" if more else "no number of ranks is enough: recompute, or shard"
    return (
        f"{orders.ranks} ranks with {orders.virtual_stages} stages each {does} at least "
        f"{least:.0f} bytes per rank, but the cap is {cap:.0f}: {fix}"
    )


def _least_ranks(simulation: Simulation, cap: float, effort: int) -> int | None:
    """Return the fewest ranks that the model is found to fit into, or None."""
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
    memory_game = _memory_game(simulation)
    return (
        memory_game.bound <= cap and _improved(simulation, set(memory_game.ways), cap).excess <= 0
    )


# All cuts --------------------------------------------------------------------------------------


def _actions(simulation: Simulation) -> int:
    """Return how many actions are simulated to try all cuts."""
    ways = math.comb(simulation.cuts, simulation.orders.stages - 1)
    return ways * len(simulation.orders.queue)


def _best(simulation: Simulation, allowed: float) -> _Tried:
    """Return the best of all possible cuts."""
    every = itertools.combinations(range(1, simulation.cuts + 1), simulation.orders.stages - 1)
    best = _Tried(math.inf, math.inf, ())
    while some := list(itertools.islice(every, _AT_ONCE)):
        best = min(best, _sorted(simulation, as_rows(some), allowed)[0])
    return best


def _sorted(simulation: Simulation, ways: Ways, allowed: float, count: int = 1) -> list[_Tried]:
    """Return the best of some cuts, in order."""
    excess: npt.NDArray[np.float64] = np.zeros(len(ways))
    if not math.isinf(allowed):
        excess = np.maximum(0.0, simulation.memory(ways) - allowed)
    steps = simulation.steps(ways)
    return [
        _Tried(float(excess[at]), float(steps[at]), tuple(map(int, ways[at])))
        for at in np.lexsort((steps, excess))[:count]
    ]


# Some cuts -------------------------------------------------------------------------------------


def _improved(simulation: Simulation, ways: set[Way], allowed: float) -> _Tried:
    """Return the best cuts of a local search: few moves from many starts, then many from a few."""
    found = _sorted(simulation, as_rows(sorted(ways)), allowed, _STARTS)
    cuts = simulation.orders.stages - 1
    for moves, count in ((_together(cuts), _STARTS), (_apart(cuts), _STARTS // 4)):
        moved = {_moved(simulation, start, moves, allowed) for start in found[:count]}
        found = sorted(moved)
    return found[0]


def _ruled_out(
    simulation: Simulation, time_game: Outcome, best: _Tried, allowed: float, effort: int
) -> tuple[_Tried, float]:
    """Simulate all cuts that could be better than the best ones, unless that takes too much effort.

    Returns the best cuts, and a lower bound: their step, if no others are left.
    """
    size = (1 + len(time_game.counts)) * simulation.orders.stages * simulation.times[0].size
    if size > effort // 4:  # the tables alone would take it
        return best, time_game.bound
    critical = simulation.slowest(costs_of(simulation.times, as_rows([best.way]))[0])
    fit = [simulation.are_stages & each for each in simulation.fitting(allowed)]
    tables = [
        [
            np.where(can_be, np.tensordot(each, simulation.times, axes=1), np.inf)
            for each, can_be in zip(counts, fit, strict=True)
        ]
        for counts in (*time_game.counts, critical)
    ]
    candidates = PossibleCuts(
        tables=np.array(tables), ceiling=best.step * (1 - _ROUNDING), effort=effort // 4
    )
    try:
        for ways in candidates:
            candidates.effort -= len(ways) * len(simulation.orders.queue)
            best = min(best, _sorted(simulation, ways, allowed)[0])
            candidates.ceiling = best.step * (1 - _ROUNDING)
    except EffortSpent:
        return best, time_game.bound
    return best, best.step


def _time_game(simulation: Simulation, cap: float, effort: int) -> Outcome:
    """Play the game for a short step, starting from the average time of all ranks."""
    fit = [simulation.are_stages & each for each in simulation.fitting(cap)]
    orders = simulation.orders
    first = np.full((orders.stages, len(simulation.times)), orders.microbatches / orders.ranks)
    first[:, 3] = 1 / orders.ranks  # what a rank does once, at the end of a step
    return play_game(simulation.times, fit, simulation.slowest, first, _game(effort))


def _game(effort: int) -> int:
    """Return the table entries that a game may compute."""
    return max(_LEAST_GAME, 4 * effort)


def _memory_game(simulation: Simulation) -> Outcome:
    """Play the game for the least memory, starting from even stages."""
    stages = [simulation.are_stages] * simulation.orders.stages
    first = simulation.fullest(costs_of(simulation.sizes, as_rows([_even(simulation)]))[0])
    return play_game(simulation.sizes, stages, simulation.fullest, first)


def _even(simulation: Simulation) -> Way:
    """Return cuts into stages of similar duration: the slowest is as fast as possible."""
    table = np.where(simulation.are_stages, sum(simulation.times), np.inf)
    return bottleneck([table] * simulation.orders.stages).cuts


def _moved(simulation: Simulation, start: _Tried, moves: Ways, allowed: float) -> _Tried:
    """Return the cuts that no move improves."""
    best = start
    while True:
        ways = as_rows([best.way]) + moves
        ends = np.pad(ways, ((0, 0), (1, 1)), constant_values=((0, 0), (0, simulation.cuts + 1)))
        (found,) = _sorted(simulation, ways[(np.diff(ends) > 0).all(axis=1)], allowed)
        if found >= best:
            return best
        best = found


def _together(cuts: int) -> Ways:
    """Return moves as offsets of each cut: none, or neighbouring cuts by the same distance."""
    numbers = np.arange(cuts)
    moves = [
        far * ((numbers >= first) & (numbers <= last))
        for first, last in itertools.combinations_with_replacement(range(cuts), 2)
        for far in (-16, -4, -2, -1, 1, 2, 4, 16)
    ]
    return np.vstack([0 * numbers, *moves])


def _apart(cuts: int) -> Ways:
    """Return moves as offsets of each cut, including any two cuts by different distances."""
    numbers = np.arange(cuts)
    moves = [
        one * (numbers == first) + other * (numbers == last)
        for first, last in itertools.combinations(range(cuts), 2)
        for one, other in itertools.product((-2, -1, 1, 2), repeat=2)
    ]
    return np.vstack([_together(cuts), *moves])
