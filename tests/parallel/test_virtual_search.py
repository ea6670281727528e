"""The cuts that are found for several stages on a rank, beside the best of all."""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

pytest.importorskip("torch")

from launcher.errors import ParallelError
from launcher.parallel.partitioning import Chain, Cuts, search
from launcher.shared import (
    ActionKind,
    Joint,
    Link,
    ModuleCost,
    Objective,
    Orders,
    Schedule,
    StageSeconds,
    simulate,
)

INFINITE = float("inf")


@dataclass(frozen=True, kw_only=True)
class Problem:
    chain: Chain
    orders: Orders
    cap: float = INFINITE


def drawn(draw: random.Random) -> Problem:
    """A chain with ties, giants, modules that cost nothing, and places where there is no cut."""
    ranks, virtual = draw.choice([(2, 2), (2, 3), (3, 2), (2, 1), (3, 1)])
    schedule = Schedule.ZERO_BUBBLE if virtual == 1 else draw.choice(list(Schedule)[1:])
    length = draw.randint(ranks * virtual, 12)

    def cost(scale: float) -> float:
        if draw.random() < 0.15:
            return 0
        giant = 50 if draw.random() < 0.05 else 1
        return round(scale * giant * draw.choice([1, 1, 2, draw.random()]), 3)

    modules = tuple(
        ModuleCost(
            name=f"layers.{number}",
            forward=cost(1),
            backward=cost(2),
            parameters=int(cost(100)),
            kept=int(cost(100)),
            passing=int(cost(100)),
            crossing=None if draw.random() < 0.05 else int(cost(20)),
            returning=int(cost(20)),
        )
        for number in range(length)
    )
    first, second = sorted(draw.sample(range(length), 2))
    return Problem(
        chain=Chain(
            modules,
            joints=(Joint(first=first, second=second, kept=draw.randint(0, 50)),),
            link=Link(latency=draw.choice([0, 0.1]), bandwidth=draw.choice([None, 20, 200])),
        ),
        orders=Orders(
            schedule=schedule,
            ranks=ranks,
            virtual_stages=virtual,
            microbatches=ranks * draw.choice([1, 2, 3]),
        ),
        cap=draw.choice([INFINITE, draw.randint(200, 6000)]),
    )


def every(problem: Problem) -> Iterator[Cuts]:
    """All cuts, costs worked out from the modules one by one."""
    modules, orders = problem.chain.modules, problem.orders
    for places in itertools.combinations(range(1, len(modules)), orders.stages - 1):
        if any(modules[place].crossing is None for place in places):
            continue
        stages = list(zip((0, *places), (*places, len(modules)), strict=True))
        timed = [_timed(problem.chain, *stage) for stage in stages]
        memory = [_bytes_of(problem, rank, stages) for rank in range(orders.ranks)]
        yield Cuts(places=places, step=simulate(orders, timed).seconds, memory=max(memory))


def _timed(chain: Chain, first: int, last: int) -> StageSeconds:
    inside = chain.modules[first:last]
    return StageSeconds(
        forward=sum(each.forward for each in inside),
        backward=sum(each.backward for each in inside),
        sending=sum(
            chain.link.seconds(chain.modules[end].crossing or 0, chain.modules[end].returning or 0)
            for end in (first, last)
            if 0 < end < len(chain)
        ),
    )


def _bytes_of(problem: Problem, rank: int, stages: list[tuple[int, int]]) -> int:
    """The most of a rank, action by action."""
    chain, orders = problem.chain, problem.orders
    always, kept, passing = 0, {}, []
    for stage in range(rank, orders.stages, orders.ranks):
        first, last = stages[stage]
        inside = chain.modules[first:last]
        before = chain.modules[first] if first else None
        after = chain.modules[last] if last < len(chain) else None
        always += sum(each.held for each in inside)
        always += orders.microbatches * ((before and before.crossing) or 0)
        always += orders.microbatches * ((after and after.returning) or 0)
        kept[stage] = sum(each.kept for each in inside) + ((after and after.crossing) or 0)
        joined = [each for each in chain.joints if first <= each.first and each.second < last]
        kept[stage] += sum(each.kept for each in joined)
        passing.append(max(each.passing for each in inside))
    now = most = 0
    for kind, stage, _ in orders.actions[rank]:
        if kind is ActionKind.FORWARD:
            now += kept[stage]
        elif kind is not ActionKind.INPUT:
            now -= kept[stage]
        most = max(most, now)
    return always + most + max(passing)


def compare(problem: Problem, objective: Objective) -> tuple[float, float] | None:
    """How far a search without and with all cuts tried is above the best; None: nothing fits."""
    chain, orders, cap = problem.chain, problem.orders, problem.cap
    possible = [each for each in every(problem) if each.memory <= cap]
    if not possible:
        with pytest.raises(ParallelError):
            search(chain, orders, objective, cap=cap)
        return None
    if objective is Objective.SPEED:
        best = min(possible, key=lambda each: each.step)
    else:
        best = min(possible, key=lambda each: (each.memory, each.step))
    shares = []
    for effort in (0, 10**8):
        found = search(chain, orders, objective, cap=cap, effort=effort)
        (same,) = [each for each in possible if each.places == found.places]
        assert (found.step, found.memory) == pytest.approx((same.step, same.memory))
        if found.memory <= best.memory or objective is Objective.SPEED:
            assert found.bound <= best.step * (1 + 1e-9)
        least, cost = best.step, found.step
        if objective is Objective.MEMORY and found.memory > best.memory:
            least, cost = best.memory, found.memory
        shares.append(cost / least - 1 if least else 0.0)
    assert found.gap == 0
    return shares[0], shares[1]


@pytest.mark.long
@pytest.mark.parametrize("objective", Objective)
@pytest.mark.parametrize(
    "count", [30, pytest.param(500, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]
)
def test_cuts_that_are_found_are_the_best_of_all(objective: Objective, count: int) -> None:
    """As a rule without trying them all, and always with that."""
    draw = random.Random(count)
    pairs = [pair for _ in range(count) if (pair := compare(drawn(draw), objective))]
    led, tried = (sorted(shares) for shares in zip(*pairs, strict=True))
    print(
        f"{objective.value}: {len(pairs)} chains, above the best: median "
        f"{statistics.median(led):.2%}, {sum(each > 1e-9 for each in led)} at all, worst "
        f"{led[-1]:.2%}; with all cuts tried: worst {tried[-1]:.2%}"
    )
    assert count / 2 < len(pairs) < count  # some have no cuts that fit, and are refused
    assert tried[-1] < 1e-9
    assert statistics.median(led) < 1e-9
    assert led[-1] <= 0.03


def even(count: int, **costs: int) -> Chain:
    modules = (
        ModuleCost(name=f"{n}", forward=1, backward=2, crossing=0, returning=0, **costs)
        for n in range(count)
    )
    return Chain(tuple(modules))


def four(schedule: Schedule = Schedule.INTERLEAVED) -> Orders:
    """Two ranks with two stages each."""
    return Orders(schedule=schedule, ranks=2, virtual_stages=2, microbatches=4)


@pytest.mark.parametrize("schedule", [Schedule.INTERLEAVED, Schedule.ZERO_BUBBLE])
def test_the_step_is_close_above_the_bound_where_there_are_many_modules(schedule: Schedule) -> None:
    chain, orders = even(200), four(schedule)
    found = search(chain, orders, Objective.SPEED, effort=0)
    assert found.bound < found.step <= simulate(orders, equal(chain, orders)).seconds
    assert found.gap < 0.05


def equal(chain: Chain, orders: Orders) -> list[StageSeconds]:
    """Stages of as many modules each."""
    size = len(chain) // orders.stages
    return [_timed(chain, size * each, size * (each + 1)) for each in range(orders.stages)]


def test_a_giant_is_with_a_small_stage_on_its_rank() -> None:
    """The rank of stages 0 and 2 has the giant of the first, and so little of the third."""
    giant = ModuleCost(name="giant", forward=4, backward=8)
    chain = Chain((giant, *even(12).modules[1:]))
    found = search(chain, four(), Objective.SPEED)
    first, second, third, last = (b - a for a, b in chain.stages(found.places))
    assert first + third < second + last


@pytest.mark.long
@pytest.mark.parametrize("effort", [0, 10**8], ids=["led", "tried"])
def test_a_cap_that_nothing_fits_names_the_fewest_ranks_that_would_do(effort: int) -> None:
    with pytest.raises(
        ParallelError, match=r"2 ranks .* at least 800 bytes per rank, but the cap is 500: use 4"
    ):
        search(even(16, parameters=100), four(), Objective.SPEED, cap=500, effort=effort)
    with pytest.raises(ParallelError, match="no number of ranks is enough: recompute, or shard"):
        search(even(16, parameters=100), four(), Objective.SPEED, cap=50, effort=effort)


def test_more_stages_than_modules_are_refused() -> None:
    with pytest.raises(
        ParallelError, match=r"cannot be cut into 4 stages .* since it has 2 places"
    ):
        search(even(3), four(), Objective.SPEED)


@pytest.mark.long
def test_the_memory_that_a_search_finds_has_a_bound() -> None:
    """The least memory is between the bound and what is found without trying all cuts."""
    draw, compared = random.Random(2), 0
    for _ in range(12):
        problem = drawn(draw)
        chain, orders = problem.chain, problem.orders
        if len([each for each in chain.modules[1:] if each.crossing is None]) or len(chain) > 9:
            continue
        least = search(chain, orders, Objective.MEMORY)
        led = search(chain, orders, Objective.MEMORY, effort=0)
        assert least.memory_gap == 0
        assert led.memory_bound is not None
        assert led.memory_bound <= least.memory * (1 + 1e-9)
        assert least.memory <= led.memory <= least.memory * (1 + led.memory_gap) * (1 + 1e-9)
        compared += 1
    assert compared > 2
