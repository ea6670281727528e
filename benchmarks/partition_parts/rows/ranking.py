"""Are cuts as fast as predicted, and in that order; and is the chosen one the fastest?

A chain of modules that sleep, some on the way there and some on the way back, which the profile
has to find out. The best cuts and random ones are timed by turns; the time of each is its median.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from itertools import combinations
from math import sqrt

from table.figures import Figure, at_least, at_most
from trainers_parts.bench import Bench

_STAGES, _MICROBATCHES, _MODULES = 4, 8, 14


def measure(bench: Bench) -> Iterator[Figure]:
    for schedule in ("interleaved", "simple"):
        found = bench.run(
            "ranking",
            ranks=_STAGES,
            stages=_STAGES,
            microbatches=_MICROBATCHES,
            modules=_MODULES,
            seconds=bench.pick(0.2, 0.04),  # that a microbatch takes in all modules
            plans=bench.pick(20, 4),
            schedule=schedule,
            seed=7,
            rounds=bench.rounds,
        )
        yield from _compared(schedule, found["predicted"], found["measured"])


def _compared(
    schedule: str, predicted: Sequence[float], rounds: Sequence[Sequence[float]]
) -> Iterator[Figure]:
    """The first cuts are those that were chosen. rounds: seconds of steps, by cuts."""
    measured = [statistics.median(each) for each in rounds]
    apart = [100 * (told / real - 1) for told, real in zip(predicted, measured, strict=True)]
    yield Figure(
        row="ranking",
        what=f"{schedule}: random cuts, Kendall's tau of both orders",
        values=[kendall(predicted[1:], measured[1:])],
        unit="",
        target=at_least(0.9),
        note=f"{len(measured) - 1} cuts, steps of {min(measured):.2f} to {max(measured):.2f} s",
    )
    yield Figure(
        row="ranking",
        what=f"{schedule}: the chosen cuts, to the best measured",
        values=[measured[0] / min(measured)],
        target=at_most(1.03),
    )
    yield Figure(
        row="ranking",
        what=f"{schedule}: predicted steps, too long by",
        values=apart,
        unit="%",
        note=f"{min(apart):.1f} to {max(apart):.1f}",
    )


def kendall(ones: Sequence[float], others: Sequence[float]) -> float:
    """How alike two orders are, from -1 to 1: Kendall's tau-b, which knows ties."""
    signs = [
        (_sign(a - b), _sign(c - d))
        for (a, c), (b, d) in combinations(zip(ones, others, strict=True), 2)
    ]
    alike = sum(one * other for one, other in signs)
    apart = sum(abs(one) for one, _ in signs) * sum(abs(other) for _, other in signs)
    return alike / sqrt(apart)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
