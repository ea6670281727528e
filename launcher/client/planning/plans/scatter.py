"""A recommendation's clusters as points, dollars over time on logarithmic axes, and as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.client.planning.plans.cluster_candidates import Candidate
from launcher.client.show import escaped, short_number

if TYPE_CHECKING:
    from launcher.client.planning.plans.recommendation import Recommendation


_MILLION = 1e6
_HOUR = 3600
#: Room around the points, as a factor: both axes are logarithmic.
_MARGIN = 1.15
_STEPS = (1, 2, 5)


@dataclass(frozen=True, kw_only=True)
class ClusterPoint:
    """One cluster.

    hours, dollars: of the whole training if it is known, else of a million samples. is_pareto: none
    is both cheaper and faster.
    """

    name: str
    hours: float
    dollars: float
    is_pareto: bool
    is_best: bool


@dataclass(frozen=True, kw_only=True)
class ClusterScatter:
    """Points and their axes, from least to most. what: the work that hours and dollars are for."""

    points: tuple[ClusterPoint, ...]
    what: str
    hours: tuple[float, float]
    dollars: tuple[float, float]

    @property
    def pareto(self) -> list[ClusterPoint]:
        """The points of which none is both cheaper and faster, from the fastest on."""
        return sorted((p for p in self.points if p.is_pareto), key=lambda point: point.hours)

    @property
    def in_drawing_order(self) -> list[ClusterPoint]:
        """The points so that the recommended one is drawn last, above the others."""
        return sorted(self.points, key=lambda point: (point.is_best, point.is_pareto))


def recommendation_scatter(recommendation: Recommendation) -> ClusterScatter | None:
    """Return the points of a recommendation; None if no cluster keeps to its limits."""
    by_id = {id(each): each for each in (*recommendation.pareto, *recommendation.shown)}
    # A free cluster has no place on a logarithmic axis.
    clusters = [each for each in by_id.values() if each.dollars_per_sample > 0]
    if not clusters:
        return None
    is_whole = all(each.hours is not None and each.total is not None for each in clusters)
    pareto = {id(each) for each in recommendation.pareto}
    points = tuple(
        ClusterPoint(
            name=recommendation.name(each),
            hours=_hours(each, is_whole=is_whole),
            dollars=_dollars(each, is_whole=is_whole),
            is_pareto=id(each) in pareto,
            is_best=each is recommendation.best,
        )
        for each in clusters
    )
    epochs = recommendation.workload.epochs
    return ClusterScatter(
        points=points,
        what=f"{epochs} epochs" if is_whole else "a million samples",
        hours=_range([point.hours for point in points]),
        dollars=_range([point.dollars for point in points]),
    )


def position(value: float, axis: tuple[float, float]) -> float:
    """Return the position of a value on a logarithmic axis, 0 to 1."""
    low, high = (math.log(end) for end in axis)
    return (math.log(value) - low) / (high - low)


def ticks(axis: tuple[float, float]) -> list[float]:
    """Return the round numbers within an axis: 1, 2 and 5 times powers of ten."""
    found = list(_round_numbers(axis))
    # Of a short axis all, of a long one the powers of ten.
    powers = [each for each in found if math.isclose(math.log10(each) % 1, 0, abs_tol=1e-9)]
    return powers if len(found) > 3 * len(_STEPS) and len(powers) > 1 else found


def _round_numbers(axis: tuple[float, float]) -> Iterator[float]:
    low, high = axis
    for power in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1):
        yield from (n for step in _STEPS if low <= (n := step * 10.0**power) <= high)


def _hours(candidate: Candidate, *, is_whole: bool) -> float:
    if is_whole and candidate.hours is not None:
        return candidate.hours.expected
    return candidate.seconds_per_sample * _MILLION / _HOUR


def _dollars(candidate: Candidate, *, is_whole: bool) -> float:
    if is_whole and candidate.total is not None:
        return candidate.total.expected
    return candidate.dollars_per_sample * _MILLION


def _range(values: Sequence[float]) -> tuple[float, float]:
    return min(values) / _MARGIN, max(values) * _MARGIN


@dataclass(frozen=True, kw_only=True)
class ScatterArea:
    """Size of a drawing and its margins, in SVG's units. grid: attributes of the grid's lines."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    grid: str

    @property
    def view_box(self) -> str:
        """The drawing's viewBox."""
        return f"0 0 {self.width} {self.height}"

    def place(self, scatter: ClusterScatter, point: ClusterPoint) -> tuple[float, float]:
        """Return a cluster's place, from the left and from the top."""
        return self._x(scatter, point.hours), self._y(scatter, point.dollars)

    def axes(self, scatter: ClusterScatter, caption: str) -> Iterator[str]:
        """Yield the grid with its labels. caption: of the horizontal axis."""
        lowest, end = self.height - self.bottom, self.width - self.right
        for value in _labels(scatter.hours):
            x, hours = self._x(scatter, value), short_number(value)
            yield f'<path {self.grid} d="M{x:.1f} {self.top}V{lowest}"/>'
            yield f'<text x="{x:.1f}" y="{lowest + 16}" text-anchor="middle">{hours}</text>'
        for value in _labels(scatter.dollars):
            y, dollars = self._y(scatter, value), f"${short_number(value)}"
            yield f'<path {self.grid} d="M{self.left} {y:.1f}H{end}"/>'
            yield f'<text x="{self.left - 6}" y="{y + 4:.1f}" text-anchor="end">{dollars}</text>'
        middle = f'x="{(self.left + end) // 2}" y="{self.height - 6}" text-anchor="middle"'
        yield f"<text {middle}>{escaped(caption)}</text>"

    def _x(self, scatter: ClusterScatter, hours: float) -> float:
        return self.left + position(hours, scatter.hours) * (self.width - self.left - self.right)

    def _y(self, scatter: ClusterScatter, dollars: float) -> float:
        room = self.height - self.top - self.bottom
        return self.height - self.bottom - position(dollars, scatter.dollars) * room


def _labels(axis: tuple[float, float]) -> list[float]:
    """Return the round numbers of an axis, or its ends if it is too short for two of them."""
    found = ticks(axis)
    return found if len(found) > 1 else list(axis)
