"""Are cuts as fast as predicted, and in that order; and is the chosen one the fastest?

A chain of modules that sleep, some on the way there and some on the way back, which the profile
has to find out. Random cuts are timed by turns with those that the formula has chosen and those
that a search has found, which plays the schedule; the time of each is its median.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from itertools import combinations
from math import sqrt
from typing import Any

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
            seconds=bench.pick(0.25, 0.04),  # that a microbatch takes in all modules
            plans=bench.pick(20, 4),
            schedule=schedule,
            seed=7,
            rounds=bench.rounds,
        )
        yield from _compared(schedule, found)


def _compared(schedule: str, found: dict[str, Any]) -> Iterator[Figure]:
    """found: of cuts, the seconds of a step: predicted, by the formula that chooses, measured."""
    measured = [statistics.median(each) for each in found["measured"]]
    drawn = sorted(set(range(len(measured))) - {found["chosen"], found["searched"]})
    alike = [kendall(*pair) for pair in combinations(zip(*found["measured"], strict=True), 2)]
    words = f"{len(drawn)} cuts of {min(measured):.2f} to {max(measured):.2f} s"
    if alike:
        words += f"; two rounds of measuring: {statistics.median(alike):.3g}"
    for way, bound in (("predicted", at_least(0.9)), ("by formula", None)):
        told = found[way]
        yield Figure(
            row="ranking",
            what=f"{schedule}: random cuts, {way} and measured, tau",
            values=[kendall([told[n] for n in drawn], [measured[n] for n in drawn])],
            unit="",
            target=bound,
            note=words,
        )
        apart = [100 * (each / real - 1) for each, real in zip(told, measured, strict=True)]
        yield Figure(
            row="ranking",
            what=f"{schedule}: steps, {way}, are too long by",
            values=apart,
            unit="%",
            note=f"{min(apart):.1f} to {max(apart):.1f}",
        )
    for way, bound in (("chosen", at_most(1.03)), ("searched", None)):
        yield Figure(
            row="ranking",
            what=f"{schedule}: the {way} cuts, to the best measured",
            values=[measured[found[way]] / min(measured)],
            target=bound,
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
