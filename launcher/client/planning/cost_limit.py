"""The cost limit of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.client.catalogue.cost import dollars_text
from launcher.client.catalogue.prices import price_fix
from launcher.client.jobs.durations import readable
from launcher.errors import Problem, SpecError

if TYPE_CHECKING:
    from launcher.client.planning.cost_plan import CostPlan


def enforce_max_cost(plan: CostPlan, max_cost: float, where: str) -> None:
    """Raise SpecError for a job that may cost more than `max_cost` dollars, or an unknown amount.

    where: the option or argument that set the limit.
    """
    most = plan.max_dollars
    if most is None:
        raise SpecError([_unknown(plan, max_cost, where)])
    if not most <= max_cost:  # also refuses for a NaN limit
        raise SpecError([_above(plan, most, max_cost, where)])


def _unknown(plan: CostPlan, max_cost: float, where: str) -> Problem:
    types = ", ".join(plan.most_expensive.unknown_types)
    return Problem(
        what=f"the price of {types} is unknown, so {dollars_text(max_cost)} cannot be enforced",
        where=where,
        fix=f"{price_fix(plan.most_expensive.unknown_types[0])}; or omit {where}",
    )


def _above(plan: CostPlan, most: float, max_cost: float, where: str) -> Problem:
    per_hour = plan.most_expensive.per_hour or 0.0
    seconds = max_cost / per_hour * 3600 - (plan.max_seconds - plan.spec.max_run)
    shorter = f"set max_run to at most {int(seconds)} s, or " if seconds >= 1 else ""
    return Problem(
        what=f"the job may cost {dollars_text(most)} in {readable(plan.max_seconds)}, "
        f"more than {dollars_text(max_cost)}",
        where=where,
        fix=f"{shorter}use fewer or smaller instances",
    )
