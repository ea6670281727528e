"""The cost plan as text for a terminal, and as HTML for a notebook: a table, then the notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from launcher.client import catalogue
from launcher.client.catalogue import OLD_MARK, GroupCost, dollars_text, price_fix
from launcher.client.jobs import aligned, readable
from launcher.client.spec import html_cells, html_table

if TYPE_CHECKING:
    from launcher.client.planning.plans.cost_plan import CostPlan


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


HEAD = ("group", "role", "type", "count", "vCPU", "GPU", "$/h", "max $")
#: The right-aligned columns.
NUMERIC = frozenset({"count", "vCPU", "$/h", "max $"})


def rows(plan: CostPlan) -> list[tuple[str, ...]]:
    """Return a row for each group and each alternative, and a total row for several groups."""
    groups = plan.estimate.groups
    body = [row for group in groups for row in _rows_of(group, plan)]
    return body if len(groups) == 1 else [*body, _total(plan)]


def _rows_of(group: GroupCost, plan: CostPlan) -> Iterator[tuple[str, ...]]:
    first, *alternatives = plan.choices(group)
    yield (group.name, plan.roles[group.name] or "?", *_cells(first, plan))
    for other in alternatives:
        yield ("", "or", *_cells(other, plan))


def _cells(group: GroupCost, plan: CostPlan) -> tuple[str, ...]:
    instance = catalogue.find(group.instance_type)
    vcpu = instance.vcpu if instance else None
    old = OLD_MARK if plan.estimate.is_old_price(group) else ""
    return (
        group.instance_type,
        str(group.count),
        "unknown" if vcpu is None else str(group.count * vcpu),
        _accelerators(instance, group.count),
        dollars_text(group.per_hour) + old,
        dollars_text(group.dollars(plan.max_seconds)) + old,
    )


def _total(plan: CostPlan) -> tuple[str, ...]:
    count = sum(group.count for group in plan.estimate.groups)
    old = OLD_MARK if plan.estimate.is_old else ""
    money = dollars_text(plan.estimate.per_hour) + old, dollars_text(plan.max_dollars) + old
    return ("total", "", "", str(count), "", "", *money)


def _accelerators(instance: catalogue.InstanceType | None, count: int) -> str:
    """Return the accelerators of all instances together, such as "8 x A100"."""
    if instance is None:
        return "unknown"
    if not instance.accelerators:
        return "-"
    maker_and_name = instance.accelerator_name or ""
    return f"{count * instance.accelerators} x {maker_and_name.rpartition(' ')[2]}"


def notes(plan: CostPlan) -> list[tuple[str, str]]:
    """Return labels and texts, in reading order."""
    return [*_cost_notes(plan), *_location_notes(plan)]


def _cost_notes(plan: CostPlan) -> Iterator[tuple[str, str]]:
    spec = plan.spec
    limit = f"max $ is reached after {readable(spec.max_run)} (max_run)"
    if spec.keep_alive_period_in_seconds:
        limit += f" and {readable(spec.keep_alive_period_in_seconds)} as a warm pool"
    if plan.alternatives:
        limit += " with the most expensive types"
    yield "Estimate", f"{limit}; storage and traffic are not included"
    for source in plan.estimate.sources:
        yield "Prices", source
    if unknown := plan.most_expensive.unknown_types:
        yield "Unknown", f"the price of {', '.join(unknown)}: {price_fix(unknown[0])}"
    if spec.training_plan:
        yield "Paid", "in advance by the training plan; these are the prices without it"
    if spec.use_spot_instances:
        yield "Spot", "costs less than this; the saving is known after the job"


def _location_notes(plan: CostPlan) -> Iterator[tuple[str, str]]:
    region = plan.estimate.region or "unknown (set AWS_DEFAULT_REGION)"
    place = plan.placement
    yield "Region", f"{region}, account {place.role_arn.split(':')[4]}" if place else region
    if place:
        yield "Image", place.image_uri
        yield "Code", place.code_uri
        yield "Output", f"{place.output_uri}/{place.job_name}/output/"
        if place.checkpoint_uri:
            yield "Saves", place.checkpoint_uri
    if plan.endpoint:
        yield "Endpoint", f"{plan.endpoint} (AWS_ENDPOINT_URL), instead of AWS"
