"""The plan of a job, as text and HTML: its groups, their prices, and where its files go."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from launcher.client import catalogue
from launcher.client.catalogue import (
    OLD_MARK,
    STORAGE,
    CostEstimate,
    GroupCost,
    Price,
    dollars_text,
    estimate,
    price_fix,
    update_fix,
)
from launcher.client.request import JobLocation
from launcher.client.sessions import PlatformSession, configured_endpoint
from launcher.client.show import Note, Table, readable, table_html, table_text
from launcher.client.spec import JobSpec, job_roles
from launcher.errors import CloudError, Problem, SpecError

#: Between the end of max_run and SIGKILL. Source: API reference, StoppingCondition.
_STOP_SECONDS = 120


@dataclass(frozen=True, kw_only=True)
class CostPlan:
    """A job that is not submitted yet, and its estimated cost.

    estimate: with the first type of each group; alternatives: the same groups with the types that
    are tried when AWS has no capacity. roles: by group name; None where still undecided.
    placement: None when not known yet. endpoint: the URL that replaces AWS, if any.
    """

    spec: JobSpec
    estimate: CostEstimate
    alternatives: tuple[GroupCost, ...]
    roles: dict[str, str | None]
    placement: JobLocation | None
    endpoint: str | None = None

    @property
    def bounding_seconds(self) -> int:
        """The seconds that no instance is billed beyond: with the wait for spot, and the stop."""
        longest = max(self.spec.max_run, self.spec.max_wait or 0)
        return longest + _STOP_SECONDS + (self.spec.keep_alive_period_in_seconds or 0)

    @property
    def max_seconds(self) -> int:
        """The longest time its instances are billed for: max_run, then as a warm pool."""
        return self.spec.max_run + (self.spec.keep_alive_period_in_seconds or 0)

    @property
    def most_expensive(self) -> CostEstimate:
        """The estimate with each group's most expensive type, or with one of unknown price."""
        groups = (max(self.choices(group), key=_hourly_price) for group in self.estimate.groups)
        return replace(self.estimate, groups=tuple(groups))

    @property
    def max_dollars(self) -> float | None:
        """Maximum cost in USD; None when a price is unknown."""
        return self.most_expensive.dollars(self.max_seconds)

    def choices(self, group: GroupCost) -> list[GroupCost]:
        """Return a group with each type that it may get, in the order they are tried."""
        return [group, *(other for other in self.alternatives if other.name == group.name)]

    def __repr__(self) -> str:
        return table_text(cost_table(self))

    def _repr_html_(self) -> str:
        return table_html(cost_table(self))


def plan_job(
    spec: JobSpec, session: PlatformSession, placement: JobLocation | None = None
) -> CostPlan:
    """Return the plan of a spec on a session, without calling AWS.

    Raises SpecError when the user's own price file is wrong.
    """
    roles, _ = job_roles(spec)
    choices = {group.instance_group_name: spec.choices(group) for group in spec.groups}
    first = [(name, *tried[0]) for name, tried in choices.items()]
    others = [(name, *each) for name, tried in choices.items() for each in tried[1:]]
    volumes = catalogue.volume_gb(choices.values(), spec.volume_size)
    prices, region = catalogue.price_list(), _region(session)
    today = catalogue.today()
    return CostPlan(
        spec=spec,
        estimate=estimate(first, prices, region, today, volumes),
        alternatives=estimate(others, prices, region, today).groups,
        roles={name: roles[name].value if name in roles else None for name, _, _ in first},
        placement=placement,
        endpoint=configured_endpoint() if session.platform.uses_aws else None,
    )


def _hourly_price(group: GroupCost) -> float:
    return math.inf if group.per_hour is None else group.per_hour


def _region(session: PlatformSession) -> str | None:
    """Return the session's region; None where jobs are free, and where no region is configured."""
    try:
        return session.region if session.platform.bills else None
    except CloudError:
        return None


def cost_table(plan: CostPlan) -> Table:
    """Return a row for each group and each alternative, and a total row for several groups."""
    groups = plan.estimate.groups
    rows = [row for group in groups for row in _rows_of(group, plan)]
    per_hour = plan.estimate.volumes_per_hour
    has_total = len(groups) > 1 or bool(per_hour)
    if per_hour:
        money = dollars_text(per_hour), dollars_text(per_hour * plan.max_seconds / 3600)
        rows.append(("volumes", "", f"{plan.estimate.volume_gb} GB", "", "", "", *money))
    return Table(
        columns=("group", "role", "type", "count", "vCPU", "GPU", "$/h", "max $"),
        rows=[*rows, _total(plan)] if has_total else rows,
        numbers=("count", "vCPU", "$/h", "max $"),
        least=("vCPU", "GPU"),
        notes=[*_cost_notes(plan), *_location_notes(plan)],
    )


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


def _cost_notes(plan: CostPlan) -> Iterator[Note]:
    spec = plan.spec
    limit = f"max $ is reached after {readable(spec.max_run)} (max_run)"
    if spec.keep_alive_period_in_seconds:
        limit += f" and {readable(spec.keep_alive_period_in_seconds)} as a warm pool"
    if plan.alternatives:
        limit += " with the most expensive types"
    excluded = "storage and traffic are"
    if plan.estimate.volumes_per_hour is not None:
        excluded = "traffic is"
    yield (
        "Estimate",
        f"{limit}; {excluded} not included",
    )
    for source in plan.estimate.sources:
        yield "Prices", source
    if unknown := plan.most_expensive.unknown_types:
        yield "Unknown", f"the price of {', '.join(unknown)}: {price_fix(unknown[0])}"
    if spec.training_plan:
        yield "Paid", "in advance by the training plan; these are the prices without it"
    if spec.use_spot_instances:
        yield "Spot", "costs less than this; the saving is known after the job"


def _location_notes(plan: CostPlan) -> Iterator[Note]:
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
