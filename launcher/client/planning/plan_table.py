"""The groups of a plan as rows of cells, with a total in the last row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client import catalogue
from launcher.client.catalogue.cost import GroupCost, dollars_text

if TYPE_CHECKING:
    from launcher.client.planning.cost_plan import CostPlan

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
    return (
        group.instance_type,
        str(group.count),
        "unknown" if vcpu is None else str(group.count * vcpu),
        _accelerators(instance, group.count),
        dollars_text(group.per_hour),
        dollars_text(group.dollars(plan.max_seconds)),
    )


def _total(plan: CostPlan) -> tuple[str, ...]:
    count = sum(group.count for group in plan.estimate.groups)
    money = dollars_text(plan.estimate.per_hour), dollars_text(plan.max_dollars)
    return ("total", "", "", str(count), "", "", *money)


def _accelerators(instance: catalogue.InstanceType | None, count: int) -> str:
    """Return the accelerators of all instances together, such as "8 x A100"."""
    if instance is None:
        return "unknown"
    if not instance.accelerators:
        return "-"
    maker_and_name = instance.accelerator_name or ""
    return f"{count * instance.accelerators} x {maker_and_name.rpartition(' ')[2]}"
