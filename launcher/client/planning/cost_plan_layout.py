"""The cost plan as text for a terminal, and as HTML for a notebook: a table, then the notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from launcher.client.jobs.aligned_columns import aligned
from launcher.client.planning.cost_plan_table import HEAD, NUMERIC, notes, rows
from launcher.client.spec.html_tables import html_cells, html_table

if TYPE_CHECKING:
    from launcher.client.planning.cost_plan import CostPlan


def cost_plan_text(plan: CostPlan, width: int | None = None) -> str:
    """Return the plan; if the table is wider than `width`, each group gets lines of its own."""
    lines = aligned([HEAD, *rows(plan)], NUMERIC)
    if width is not None and max(map(len, lines)) > width:
        lines = list(_stacked(rows(plan)))
    labelled = [f"{label:<9}{text}" for label, text in notes(plan)]
    return "\n".join([*lines, "", *labelled])


def cost_plan_html(plan: CostPlan) -> str:
    """Return a table of the groups, and a table of the notes below it."""
    groups = html_table([html_cells("th", HEAD), *(html_cells("td", row) for row in rows(plan))])
    return groups + html_table(html_cells("td", note) for note in notes(plan))


def _stacked(body: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in body:
        yield row[0]
        for name, cell in zip(HEAD[1:], row[1:], strict=True):
            if cell:
                yield f"  {name:<6} {cell}"
