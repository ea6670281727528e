"""A recommendation in a notebook and as a page: its answer, clusters and notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.client.planning.plans.recommendation_layout import cluster_table, recommendation_lines
from launcher.client.planning.plans.scatter import recommendation_scatter
from launcher.client.show import (
    Block,
    JobsPage,
    PageCard,
    PageSection,
    escaped,
    page_html,
    table_block,
    table_html,
    text_block,
)

if TYPE_CHECKING:
    from launcher.client.planning.plans.recommendation import Recommendation

_LIMIT = 10


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
        cards=[PageCard(label="Answer", value=answer, note=" ".join(lines), wide=True)],
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
