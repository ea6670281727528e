"""The cuts that are the best by the formula are those that trying all of them finds."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

pytest.importorskip("torch")

from launcher.errors import ParallelError
from launcher.parallel.partitioning import Chain, CutProblem, Cuts, best
from launcher.shared import Joint, Link, ModuleCost, Objective, Schedule


def drawn(draw: random.Random) -> CutProblem:
    """A chain with ties, giants, modules that cost nothing, and places where there is no cut."""
    length = draw.randint(1, 14)

    def cost(scale: float) -> float:
        kind = draw.random()
        if kind < 0.15:
            return 0
        return round(scale * (50 if kind < 0.25 else 1) * draw.choice([1, 1, 2, draw.random()]), 3)

    modules = tuple(
        ModuleCost(
            name=f"layers.{number}",
            forward=cost(1),
            backward=cost(2),
            parameters=int(cost(40)),
            gradients=int(cost(40)),
            states=int(cost(80)),
            kept=int(cost(100)),
            passing=int(cost(100)),
            crossing=None if draw.random() < 0.1 else int(cost(20)),
            returning=None if draw.random() < 0.1 else int(cost(20)),
        )
        for number in range(length)
    )
    pairs = [sorted(draw.sample(range(length), 2)) for _ in range(draw.randint(0, length // 2))]
    partitions = draw.randint(1, min(5, length))
    schedule = draw.choice([Schedule.SIMPLE, Schedule.INTERLEAVED])
    fewest = 1 if schedule is Schedule.SIMPLE else partitions
    return CutProblem(
        chain=Chain(
            modules,
            joints=tuple(_joint(draw, modules, *pair) for pair in pairs),
            link=Link(latency=draw.choice([0, 0.1]), bandwidth=draw.choice([None, 20, 200])),
        ),
        partitions=partitions,
        microbatches=max(fewest, draw.choice([1, 2, 4, 8])),
        schedule=schedule,
        cap=draw.choice([float("inf"), draw.randint(100, 8000)]),
    )


def _joint(draw: random.Random, modules: tuple[ModuleCost, ...], one: int, other: int) -> Joint:
    """A parameter that both have, or what goes from one to the other."""
    if draw.random() < 0.5:
        return Joint(first=one, second=other, kept=draw.randint(0, 100))
    return Joint(first=one, second=other, held=-min(modules[one].held, modules[other].held) // 9)


def every(problem: CutProblem) -> Iterator[Cuts]:
    """All cuts within the cap, costs worked out from the modules one by one."""
    modules, count, link = problem.chain.modules, problem.partitions, problem.chain.link
    for places in itertools.combinations(range(1, len(modules)), count - 1):
        if any(modules[place].crossing is None for place in places):
            continue
        there, back, memory = [], [], []
        ends = zip((0, *places), (*places, len(modules)), strict=True)
        for stage, (first, last) in enumerate(ends):
            inside = modules[first:last]
            before = (
                (modules[first].crossing or 0, modules[first].returning or 0) if first else None
            )
            after = (
                (modules[last].crossing or 0, modules[last].returning or 0)
                if last < len(modules)
                else None
            )
            under_way = problem.microbatches
            if problem.schedule is Schedule.INTERLEAVED:
                under_way = min(under_way, count - stage)
            over = sum(link.seconds(*each) for each in (before, after) if each)
            there.append(sum(each.forward for each in inside) + over / 2)
            back.append(sum(each.backward for each in inside) + over / 2)
            joined = [
                each for each in problem.chain.joints if first <= each.first and each.second < last
            ]
            memory.append(
                sum(each.parameters + each.gradients + each.states for each in inside)
                + sum(each.held for each in joined)
                + under_way * sum(each.kept for each in (*inside, *joined))
                + under_way * (after[0] if after else 0)
                + problem.microbatches * ((before[0] if before else 0) + (after[1] if after else 0))
                + max(each.passing for each in inside)
            )
        slowest = max(there) + max(back)  # where all go forward before any goes back
        if problem.schedule is Schedule.INTERLEAVED:
            slowest = max(a + b for a, b in zip(there, back, strict=True))
        step = sum(there) + sum(back) + (problem.microbatches - 1) * slowest
        if max(memory) <= problem.cap:
            yield Cuts(places=places, step=step, memory=max(memory))


def check(problem: CutProblem, objective: Objective) -> bool:
    """Whether there are cuts; if so, those that are found are the best ones."""
    possible = list(every(problem))
    if not possible:
        with pytest.raises(ParallelError):
            best(problem, objective)
        return False
    found = best(problem, objective)
    (recomputed,) = [each for each in possible if each.places == found.places]
    assert (found.step, found.memory) == pytest.approx((recomputed.step, recomputed.memory))
    if objective is Objective.SPEED:
        assert found.step == pytest.approx(min(each.step for each in possible), rel=1e-12)
    else:
        least = min(each.memory for each in possible)
        assert found.memory == least
        fastest = min(each.step for each in possible if each.memory == least)
        assert found.step == pytest.approx(fastest, rel=1e-12)
    return True


@pytest.mark.parametrize("objective", Objective)
@pytest.mark.parametrize(
    "count", [100, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
def test_the_optimum_is_the_best_of_all(objective: Objective, count: int) -> None:
    draw = random.Random(count)
    found = sum(check(drawn(draw), objective) for _ in range(count))
    assert count / 2 < found < count  # some have no partition, and are refused


def even(count: int, **costs: int) -> Chain:
    modules = (
        ModuleCost(name=f"{n}", forward=0.5, backward=0.5, crossing=0, returning=0, **costs)
        for n in range(count)
    )
    return Chain(tuple(modules))


def test_early_stages_hold_more_microbatches_and_get_fewer_modules() -> None:
    problem = CutProblem(chain=even(12, kept=100), partitions=3, microbatches=6)
    sizes = [b - a for a, b in problem.chain.stages(best(problem, Objective.MEMORY).places)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    sizes = [b - a for a, b in problem.chain.stages(best(problem, Objective.SPEED).places)]
    assert sizes == [4, 4, 4]


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (
            CutProblem(chain=even(8, parameters=100), partitions=2, microbatches=4, cap=250),
            "2 stages need at least 400 bytes per rank, but the cap is 250: use 4$",
        ),
        (
            CutProblem(chain=even(8, parameters=100), partitions=2, microbatches=4, cap=50),
            "no number of stages is enough: recompute, or shard",
        ),
        (
            CutProblem(chain=even(2), partitions=3, microbatches=4),
            "2 modules cannot be cut into 3 stages: use 2 or fewer",
        ),
        (
            CutProblem(
                chain=Chain(tuple(ModuleCost(name=n, forward=1, backward=1) for n in "ab")),
                partitions=2,
                microbatches=2,
            ),
            "the model cannot be cut into 2 stages, since it has fewer than 1 places",
        ),
    ],
    ids=["cap", "no number", "few modules", "no cuts"],
)
def test_what_cannot_be_is_refused(problem: CutProblem, words: str) -> None:
    with pytest.raises(ParallelError, match=words):
        best(problem, Objective.SPEED)
