"""The plan as HTML, for a notebook."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from launcher.client.planning.plan_notes import notes
from launcher.client.planning.plan_table import HEAD, rows

if TYPE_CHECKING:
    from launcher.client.planning.cost_plan import CostPlan


def plan_html(plan: CostPlan) -> str:
    """Return a table of the groups, and a table of the notes below it."""
    groups = _table([_cells("th", HEAD), *(_cells("td", row) for row in rows(plan))])
    return groups + _table(_cells("td", note) for note in notes(plan))


def _table(rows: Iterable[str]) -> str:
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _cells(kind: str, texts: Iterable[str]) -> str:
    return "".join(f"<{kind}>{escape(text)}</{kind}>" for text in texts)
