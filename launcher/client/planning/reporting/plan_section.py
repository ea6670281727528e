"""The plan in a report: its clusters as a chart of price over time, with the job marked on it."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.client.catalogue import dollars_text
from launcher.client.planning.plans.scatter import ClusterPoint, ClusterScatter, ScatterArea
from launcher.client.planning.reporting.planned_run import PlannedRun, UnplannedRun
from launcher.client.planning.reporting.report_chart import wide_table
from launcher.client.show import Table, escaped, short_number

_AREA = ScatterArea(
    width=400, height=270, left=52, right=14, top=12, bottom=40, grid='class="grid"'
)
#: Classes of the page's colours.
_RUN, _BEST, _PARETO, _OTHER = 1, 2, 0, 7
_LEGEND = (
    (_RUN, "this run"),
    (_BEST, "recommended"),
    (_PARETO, "none is cheaper and faster"),
    (_OTHER, "others"),
)


def plan_section(plan: PlannedRun | UnplannedRun) -> str:
    """Return the section as HTML; for a run without a plan, the reason."""
    if isinstance(plan, UnplannedRun):
        return f"<p>Not planned: {escaped(plan.why)}.</p>"
    words = "".join(f"<p>{text}</p>" for text in _words(plan))
    return (
        f'<div class="plan">{_chart(plan)}<div><div class="answer">{words}</div>'
        f"{_table(plan)}</div></div>"
        f'<p class="faint">The workload is {escaped(plan.source)}. '
        f"{plan.recommendation.compared:,} clusters with as many train hosts were compared by "
        "price per sample. This run is drawn at its measured step.</p>"
    )


def _words(plan: PlannedRun) -> Iterator[str]:
    best, run = plan.best, plan.run
    if best is None:
        answer, reason = plan.recommendation.answer, plan.recommendation.reason
        yield f"<b>{escaped(answer)}:</b> {escaped(reason)}"
    elif best.name == run.name:
        yield f"<b>This run's cluster is the recommended one: {escaped(best.name)}</b>"
        yield f"{escaped(plan.recommendation.reason)}."
    else:
        yield f"<b>Recommended: {escaped(best.name)}</b>"
        yield f"{escaped(plan.recommendation.reason)}."
        yield (
            f"For {escaped(plan.scatter.what)} it would take {_amounts(best)}; this run's "
            f"{escaped(run.name)} takes {_amounts(run)}."
        )
    if plan.expected is not None:
        yield (
            f"The plan expects a step of {plan.expected * 1e3:,.4g} ms on this run's cluster; "
            f"{plan.step * 1e3:,.4g} ms were measured."
        )


def _amounts(point: ClusterPoint) -> str:
    return f"{short_number(point.hours)} hours and {dollars_text(point.dollars)}"


def _table(plan: PlannedRun) -> str:
    rows = [
        (point.name, short_number(point.hours), dollars_text(point.dollars), remark)
        for remark, point in _rows(plan)
    ]
    return wide_table(
        Table(
            title="clusters of the plan",
            columns=("cluster", "hours", "cost", "remark"),
            rows=rows,
            numbers=("hours", "cost"),
        )
    )


def _rows(plan: PlannedRun) -> Iterator[tuple[str, ClusterPoint]]:
    """Yield the run, the recommended cluster, and those that none is cheaper and faster than."""
    yield "this run", plan.run
    if plan.best is not None:
        yield "recommended", plan.best
    for point in plan.scatter.pareto:
        if not point.is_best:
            yield "", point


def _chart(plan: PlannedRun) -> str:
    scatter = plan.scatter
    title = f"dollars over hours of {scatter.what}, both logarithmic"
    names = "".join(
        f'<span><i class="b{colour}"></i>{escaped(name)}</span>' for colour, name in _LEGEND
    )
    svg = "".join(
        [
            *_AREA.axes(scatter, "hours"),
            *_line(scatter),
            *(_dot(scatter, point) for point in scatter.in_drawing_order),
            _mark(scatter, plan.run),
        ]
    )
    return (
        f"<figure><figcaption>{escaped(title)}</figcaption>"
        f'<svg viewBox="{_AREA.view_box}" role="img"><title>{escaped(title)}</title>{svg}'
        f'</svg><p class="legend">{names}</p></figure>'
    )


def _line(scatter: ClusterScatter) -> Iterator[str]:
    places = (_AREA.place(scatter, point) for point in scatter.pareto)
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    if " " in points:
        yield f'<polyline class="l{_PARETO}" points="{points}"/>'


def _dot(scatter: ClusterScatter, point: ClusterPoint) -> str:
    colour = _BEST if point.is_best else _PARETO if point.is_pareto else _OTHER
    x, y = _AREA.place(scatter, point)
    radius = 6 if point.is_best else 4 if point.is_pareto else 3
    return (
        f'<circle class="b{colour}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}">'
        f"<title>{_title(point)}</title></circle>"
    )


def _mark(scatter: ClusterScatter, run: ClusterPoint) -> str:
    """Return the run as a diamond, so that it differs not only by its colour."""
    (x, y), half = _AREA.place(scatter, run), 8
    corners = ((x, y - half), (x + half, y), (x, y + half), (x - half, y))
    points = " ".join(f"{across:.1f},{down:.1f}" for across, down in corners)
    return (
        f'<polygon class="b{_RUN}" points="{points}"><title>this run, {_title(run)}</title>'
        "</polygon>"
    )


def _title(point: ClusterPoint) -> str:
    return escaped(f"{point.name}: {_amounts(point)}")
