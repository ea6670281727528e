"""The area of a scatter of clusters in SVG: positions in it, and its two axes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from launcher.client.jobs import short_number
from launcher.client.planning.plans.scatter import ClusterPoint, ClusterScatter, position, ticks
from launcher.client.spec import escaped


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
