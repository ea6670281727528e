"""Figures, what each should be, how sure they are, and how they stand in a table."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a figure should be."""

    bound: float
    is_most: bool

    def __str__(self) -> str:
        return f"{'<=' if self.is_most else '>='} {self.bound:g}"

    def is_met(self, value: float) -> bool:
        return value <= self.bound if self.is_most else value >= self.bound


def at_most(bound: float) -> Target:
    return Target(bound=bound, is_most=True)


def at_least(bound: float) -> Target:
    return Target(bound=bound, is_most=False)


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of the table.

    values: one a round; the figure is their median. No values: it was not measured.
    interval: in which the median lies (`interval_of`). It says how sure the verdict is, which
        is the median's alone. note: what the reader must know to judge it.
    """

    row: str
    what: str
    values: Sequence[float]
    unit: str = "x"
    target: Target | None = None
    interval: tuple[float, float] | None = None
    note: str = ""

    @property
    def median(self) -> float | None:
        return statistics.median(self.values) if self.values else None

    @property
    def verdict(self) -> str:
        """pass, FAIL, "not measured", or nothing where there is no target."""
        if self.median is None:
            return "not measured"
        if self.target is None:
            return ""
        return "pass" if self.target.is_met(self.median) else "FAIL"

    def to_fields(self) -> dict[str, Any]:
        """As JSON holds it."""
        fields = asdict(self) | {"median": self.median, "verdict": self.verdict}
        return fields | {"target": self.target and str(self.target)}

    def __str__(self) -> str:
        value = "-" if self.median is None else f"{_short(self.median)} {self.unit}"
        target = str(self.target or "")
        return (
            f"{self.row:<14}{self.what:<58}{value:>16}  {target:<10}{self.verdict:<13}"
            f"{self._confidence}{self.note}"
        )

    @property
    def _confidence(self) -> str:
        if self.interval is None:
            return ""
        least, most = self.interval
        is_open = self.target and self.target.is_met(least) != self.target.is_met(most)
        words = f"95 %: {_short(least)} to {_short(most)}"
        return f"{words}, on both sides of the target" if is_open else words


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def ratios(values: Sequence[float], others: Sequence[float]) -> list[float]:
    """Round by round: what disturbs one side for a while disturbs its neighbour too.

    A round whose divisor is 0, such as a processor time below the clock's tick, is left out.
    """
    return [value / other for value, other in zip(values, others, strict=False) if other]


def interval_of(values: Sequence[float], draws: int = 2000) -> tuple[float, float]:
    """Where the median of such values lies in 95 of 100 cases: a percentile bootstrap (Efron)."""
    choose = random.Random(0).choices
    medians = sorted(statistics.median(choose(values, k=len(values))) for _ in range(draws))
    return medians[round(0.025 * draws)], medians[round(0.975 * draws) - 1]
