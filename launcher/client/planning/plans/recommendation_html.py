"""A recommendation in a notebook and as a page: its answer, clusters, notes, and its chart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.client.catalogue import dollars_text
from launcher.client.planning.plans.recommendation_layout import cluster_table, recommendation_lines
from launcher.client.planning.plans.step_model import Interval
from launcher.client.show import (
    Block,
    DotSeries,
    JobsPage,
    PageCard,
    PageSection,
    escaped,
    page_html,
    scatter_block,
    short_number,
    table_block,
    table_html,
    text_block,
)

if TYPE_CHECKING:
    from launcher.client.planning.plans.recommendation import Recommendation

_LIMIT = 10
_MILLION = 1e6
_HOUR = 3600


def recommendation_html(recommendation: Recommendation) -> str:
    """Return the answer and the table for a notebook, in its own colours."""
    answer, reason = escaped(recommendation.answer), escaped(recommendation.reason)
    table = table_html(cluster_table(recommendation, _LIMIT))
    return f"<p><strong>{answer}</strong><br>{reason}</p>\n{table}"


def recommendation_page(recommendation: Recommendation) -> str:
    """Return a page of its own, which loads nothing from anywhere."""
    answer, *lines = recommendation_lines(recommendation)
    page = JobsPage(
        title="Clusters compared",
        subtitle=f"{recommendation.compared:,} clusters",
        cards=[PageCard(label="Answer", value=answer, note="\n".join(lines), wide=True)],
        sections=[PageSection(title="Clusters", blocks=recommendation_blocks(recommendation))],
        footer="Written by Launcher.",
    )
    return page_html(page)


def recommendation_blocks(recommendation: Recommendation) -> list[Block]:
    """Return the picture of price over time, the best clusters, and the notes."""
    scatter, table = recommendation_scatter(recommendation), cluster_table(recommendation, _LIMIT)
    picture = [] if scatter is None else [scatter.block()]
    rows = [] if not table.rows else [table_block(table, table.rows)]
    return [*picture, *rows, *(text_block(text, "faint") for _, text in table.notes)]


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
    """The clusters. what: the work that hours and dollars are for."""

    points: tuple[ClusterPoint, ...]
    what: str

    def block(self, run: ClusterPoint | None = None) -> Block:
        """Return the chart of a page. run: the cluster of a job, which is drawn besides."""
        best = [each for each in self.points if each.is_best]
        kinds = [
            DotSeries(name="others", dots=_dots(p for p in self.points if not p.is_pareto)),
            DotSeries(
                name="none is cheaper and faster",
                dots=_dots(p for p in self.points if p.is_pareto),
                line=True,
            ),
            DotSeries(name="recommended", dots=_dots(best)),
            *([DotSeries(name="this run", dots=_dots([run]))] if run else []),
        ]
        title = f"Dollars over hours of {self.what}, of {len(self.points)} clusters"
        return scatter_block(title, kinds, x_unit="hours", unit="dollars")


def _dots(points: Iterable[ClusterPoint]) -> list[tuple[str, float, float]]:
    return [(f"{each.name}: {amounts(each)}", each.hours, each.dollars) for each in points]


def amounts(point: ClusterPoint) -> str:
    """Return the hours and dollars of a cluster, for a sentence."""
    return f"{short_number(point.hours)} hours and {dollars_text(point.dollars)}"


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
            hours=_amount(each.hours, each.seconds_per_sample / _HOUR, is_whole=is_whole),
            dollars=_amount(each.total, each.dollars_per_sample, is_whole=is_whole),
            is_pareto=id(each) in pareto,
            is_best=each is recommendation.best,
        )
        for each in clusters
    )
    epochs = recommendation.workload.epochs
    whole = "an epoch" if epochs == 1 else f"{epochs} epochs"
    what = whole if is_whole else "a million samples"
    return ClusterScatter(points=points, what=what)


def _amount(whole: Interval | None, of_sample: float, *, is_whole: bool) -> float:
    return whole.expected if is_whole and whole else of_sample * _MILLION
