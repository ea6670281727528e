"""The cost limit of a job: an upper bound by the region's own prices, of instances and volumes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client.catalogue import STORAGE, Price, dollars_text, price_fix, update_fix
from launcher.client.show import readable
from launcher.errors import Problem, SpecError

if TYPE_CHECKING:
    from launcher.client.planning.plans.cost_plan import CostPlan

#: Age of a price that bounds nothing any more.
_MONTHS = 12
#: Fields of Debugger's rules that run in a processing job which is billed.
_BILLED = frozenset({"InstanceType", "VolumeSizeInGB"})


def enforce_max_cost(plan: CostPlan, max_cost: float, where: str) -> None:
    """Raise SpecError for a job that may cost more than `max_cost` dollars, or an unknown amount.

    The bound has the most expensive types, the volumes of the hosts that have no disks, the time
    until a stop is enforced, the wait for spot instances and that of a warm pool. A price of
    another region, of _MONTHS ago, or that one public copy alone has, is none; nor have rules of
    Debugger one that run on instances of the user's choice. AWS's own rules cost nothing.

    where: the option or argument that set the limit.
    """
    if problems := list(_unknown(plan, max_cost, where)):
        raise SpecError(problems)
    per_hour = plan.most_expensive.per_hour or 0.0
    most = per_hour * plan.bounding_seconds / 3600
    if not most <= max_cost:  # also refuses for a NaN limit
        raise SpecError([_above(plan, most, per_hour, max_cost, where)])


def _unknown(plan: CostPlan, max_cost: float, where: str) -> Iterator[Problem]:
    prices = {
        each.instance_type: each.price
        for group in plan.estimate.groups
        for each in plan.choices(group)
    }
    if plan.estimate.volume_gb:
        prices[STORAGE] = plan.estimate.storage
    if bad := [name for name, price in prices.items() if not _is_usable(plan, price)]:
        region = plan.estimate.region or "the job's region"
        yield Problem(
            what=f"today's price of {', '.join(bad)} in {region} is unknown, so "
            f"{dollars_text(max_cost)} cannot be enforced",
            where=where,
            fix=f"{update_fix(plan.estimate.region)}; or {price_fix(bad[0])}; or omit {where}",
        )
    if plan.spec.is_serverless:
        yield Problem(
            what=f"AWS states no price of a serverless job, so {dollars_text(max_cost)} cannot be "
            "enforced",
            where=where,
            fix=f"omit {where}",
        )
    for rule in (*plan.spec.rules, *plan.spec.profiler_rules):
        if _BILLED & rule.keys():
            yield Problem(
                what=f"the rule {rule.get('RuleConfigurationName')} runs on an instance of its own,"
                f" beside the job, so {dollars_text(max_cost)} cannot be enforced",
                where=where,
                fix=f"remove the rule, or omit {where}",
            )


def _is_usable(plan: CostPlan, price: Price | None) -> bool:
    if price is None or price.is_of_one_copy or not price.is_of(plan.estimate.region):
        return False
    return price.months_before(plan.estimate.day) < _MONTHS


def _above(plan: CostPlan, most: float, per_hour: float, max_cost: float, where: str) -> Problem:
    limit = "max_wait" if (plan.spec.max_wait or 0) > plan.spec.max_run else "max_run"
    beside = plan.bounding_seconds - (getattr(plan.spec, limit) or 0)
    seconds = max_cost / per_hour * 3600 - beside if per_hour else 0.0
    shorter = f"set {limit} to at most {int(seconds)} s, or " if seconds >= 1 else ""
    return Problem(
        what=f"the job may cost {dollars_text(most)} in {readable(plan.bounding_seconds)} "
        f"with its volumes and its stop, more than {dollars_text(max_cost)}",
        where=where,
        fix=f"{shorter}use fewer or smaller instances",
    )
