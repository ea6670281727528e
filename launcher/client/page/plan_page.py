"""The plan in the page of a job: its clusters by price and time, with the job among them."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.client.catalogue import dollars_text
from launcher.client.page.planned_run import PlannedRun, UnplannedRun
from launcher.client.planning import ClusterPoint, amounts
from launcher.client.show import Block, Table, short_number, table_block, text_block


def plan_blocks(plan: PlannedRun | UnplannedRun) -> list[Block]:
    """Return the blocks; for a run without a plan, the reason."""
    if isinstance(plan, UnplannedRun):
        return [text_block(f"Not planned: {plan.why}.")]
    table = Table(
        title="clusters of the plan",
        columns=("cluster", "hours", "cost", "remark"),
        numbers=("hours", "cost"),
    )
    rows = [
        (point.name, short_number(point.hours), dollars_text(point.dollars), remark)
        for remark, point in _rows(plan)
    ]
    about = (
        f"The workload is {plan.source}. {plan.recommendation.compared:,} clusters with as many "
        "train hosts were compared by price per sample. This run is drawn at its measured step."
    )
    return [
        *(text_block(text) for text in _words(plan)),
        plan.scatter.block(plan.run),
        table_block(table, rows),
        text_block(about, "faint"),
    ]


def _words(plan: PlannedRun) -> Iterator[str]:
    best, run = plan.best, plan.run
    if best is None:
        yield f"{plan.recommendation.answer}: {plan.recommendation.reason}"
    elif best.name == run.name:
        yield f"This run's cluster is the recommended one: {best.name}"
        yield f"{plan.recommendation.reason}."
    else:
        yield f"Recommended: {best.name}"
        yield f"{plan.recommendation.reason}."
        yield (
            f"For {plan.scatter.what} it would take {amounts(best)}; this run's {run.name} takes "
            f"{amounts(run)}."
        )
    if plan.expected is not None:
        yield (
            f"The plan expects a step of {plan.expected * 1e3:,.4g} ms on this run's cluster; "
            f"{plan.step * 1e3:,.4g} ms were measured."
        )


def _rows(plan: PlannedRun) -> Iterator[tuple[str, ClusterPoint]]:
    """Yield the run, the recommended cluster, and those that none is cheaper and faster than."""
    yield "this run", plan.run
    if plan.best is not None:
        yield "recommended", plan.best
    pareto = (each for each in plan.scatter.points if each.is_pareto and not each.is_best)
    yield from (("", point) for point in sorted(pareto, key=lambda each: each.hours))
