"""The best cuts are those that trying all of them finds."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

pytest.importorskip("torch")

from launcher.contract import Schedule
from launcher.errors import ParallelError
from launcher.parallel.partitioning.chain import Chain, Module
from launcher.parallel.partitioning.optimum import Objective, Partition, Problem, best


def drawn(draw: random.Random) -> Problem:
    """A chain with ties, giants, modules that cost nothing, and places where there is no cut."""
    length = draw.randint(1, 14)

    def cost(scale: float) -> float:
        kind = draw.random()
        if kind < 0.15:
            return 0
        return round(scale * (50 if kind < 0.25 else 1) * draw.choice([1, 1, 2, draw.random()]), 3)

    modules = tuple(
        Module(
            name=f"layers.{number}",
            seconds=cost(1),
            held=int(cost(100)),
            kept=int(cost(100)),
            passing=int(cost(100)),
            cut=float("inf") if draw.random() < 0.1 else cost(0.2) * draw.choice([0, 1, 1, 5]),
        )
        for number in range(length)
    )
    return Problem(
        chain=Chain(modules),
        partitions=draw.randint(1, min(5, length)),
        microbatches=draw.choice([1, 2, 4, 8]),
        schedule=draw.choice([Schedule.SIMPLE, Schedule.INTERLEAVED]),
        cap=draw.choice([float("inf"), draw.randint(100, 8000)]),
    )


def every(problem: Problem) -> Iterator[Partition]:
    """All partitions within the cap, costs worked out from the modules one by one."""
    modules, count = problem.chain.modules, problem.partitions
    for cuts in itertools.combinations(range(1, len(modules)), count - 1):
        times, memory = [], []
        for stage, (first, last) in enumerate(zip((0, *cuts), (*cuts, len(modules)), strict=True)):
            inside = modules[first:last]
            over = (modules[first].cut if first else 0) + (
                modules[last].cut if last < len(modules) else 0
            )
            under_way = problem.microbatches
            if problem.schedule is Schedule.INTERLEAVED:
                under_way = min(under_way, count - stage)
            times.append(sum(each.seconds for each in inside) + over)
            memory.append(
                sum(each.held + under_way * each.kept for each in inside)
                + max(each.passing for each in inside)
            )
        step = sum(times) + (problem.microbatches - 1) * max(times)
        if step < float("inf") and max(memory) <= problem.cap:
            yield Partition(cuts=cuts, step=step, memory=max(memory))


def check(problem: Problem, objective: Objective) -> bool:
    """Whether there is a partition; if so, it is the best one."""
    possible = list(every(problem))
    if not possible:
        with pytest.raises(ParallelError):
            best(problem, objective)
        return False
    found = best(problem, objective)
    assert problem.evaluate(found.cuts) == found
    (recomputed,) = [each for each in possible if each.cuts == found.cuts]
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
@pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_the_optimum_is_the_best_of_all(objective: Objective, count: int) -> None:
    draw = random.Random(count)
    found = sum(check(drawn(draw), objective) for _ in range(count))
    assert count / 2 < found < count  # some have no partition, and are refused


def even(count: int, **costs: int) -> Chain:
    return Chain(tuple(Module(name=f"{n}", seconds=1.0, **costs) for n in range(count)))


def test_early_stages_hold_more_microbatches_and_get_fewer_modules() -> None:
    problem = Problem(chain=even(12, kept=100), partitions=3, microbatches=6)
    sizes = [b - a for a, b in problem.chain.stages(best(problem, Objective.MEMORY).cuts)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    sizes = [b - a for a, b in problem.chain.stages(best(problem, Objective.SPEED).cuts)]
    assert sizes == [4, 4, 4]


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (
            Problem(chain=even(8, held=100), partitions=2, microbatches=4, cap=250),
            "2 stages need 400 bytes at least, and may have 250: use 4$",
        ),
        (
            Problem(chain=even(8, held=100), partitions=2, microbatches=4, cap=50),
            "no number of stages would do: recompute, or shard",
        ),
        (
            Problem(chain=even(2), partitions=3, microbatches=4),
            "2 modules cannot be cut into 3 stages: use 2 or fewer",
        ),
        (
            Problem(
                chain=Chain(
                    (Module(name="a", seconds=1), Module(name="b", seconds=1, cut=float("inf")))
                ),
                partitions=2,
                microbatches=2,
            ),
            "the model has fewer than 1 places where it can be cut, so not 2 stages",
        ),
    ],
    ids=["cap", "no number", "few modules", "no cuts"],
)
def test_what_cannot_be_is_refused(problem: Problem, words: str) -> None:
    with pytest.raises(ParallelError, match=words):
        best(problem, Objective.SPEED)


def test_costs_are_no_negative_numbers() -> None:
    with pytest.raises(ParallelError, match=r"head: seconds is -1\.0, and must be 0 or more"):
        Module(name="head", seconds=-1.0)
    with pytest.raises(ParallelError, match="head: held is nan"):
        Module(name="head", seconds=1.0, held=float("nan"))
