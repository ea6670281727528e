"""The plan of a job: its groups with their prices, and the locations of code, output and hosts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from launcher.client import catalogue
from launcher.client.catalogue import CostEstimate, GroupCost, Price, estimate
from launcher.client.planning.plans.cost_plan_layout import cost_plan_html, cost_plan_text
from launcher.client.request import JobLocation
from launcher.client.sessions import PlatformSession, configured_endpoint
from launcher.client.spec import InstanceGroup, JobSpec, job_roles
from launcher.errors import CloudError

#: Between the end of max_run and SIGKILL. Source: API reference, StoppingCondition.
_STOP_SECONDS = 120


@dataclass(frozen=True, kw_only=True)
class CostPlan:
    """A job that is not submitted yet, and its estimated cost without storage.

    estimate: with the first type of each group; alternatives: the same groups with the types that
    are tried when AWS has no capacity. roles: by group name; None where still undecided.
    placement: None when not known yet. endpoint: the URL that replaces AWS, if any.
    storage: the price of one GB of a volume per hour, of the job's region; None if unknown.
    """

    spec: JobSpec
    estimate: CostEstimate
    alternatives: tuple[GroupCost, ...]
    roles: dict[str, str | None]
    placement: JobLocation | None
    endpoint: str | None = None
    storage: Price | None = None

    @property
    def bounding_seconds(self) -> int:
        """The seconds that no instance is billed beyond: with the wait for spot, and the stop."""
        longest = max(self.spec.max_run, self.spec.max_wait or 0)
        return longest + _STOP_SECONDS + (self.spec.keep_alive_period_in_seconds or 0)

    @property
    def volume_gb(self) -> int:
        """The GB of the volumes of all hosts; a host with disks of its own gets none."""
        return sum(
            group.count * self.spec.volume_size
            for group in self.estimate.groups
            if not all(map(_has_local_storage, self.choices(group)))
        )

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
        return cost_plan_text(self)

    def _repr_html_(self) -> str:
        return cost_plan_html(self)


def plan_job(
    spec: JobSpec, session: PlatformSession, placement: JobLocation | None = None
) -> CostPlan:
    """Return the plan of a spec on a session, without calling AWS.

    Raises SpecError when the user's own price file is wrong.
    """
    roles, _ = job_roles(spec)
    first = [_choice(group, group.instance_type) for group in spec.groups]
    others = [
        _choice(group, each)
        for group in spec.groups
        for each in group.alternatives
        if each != group.instance_type
    ]
    prices, region = catalogue.price_list(), _region(session)
    today = datetime.now(timezone.utc).date()
    return CostPlan(
        spec=spec,
        estimate=estimate(first, prices, region, today),
        alternatives=estimate(others, prices, region, today).groups,
        roles={name: roles[name].value if name in roles else None for name, _, _ in first},
        placement=placement,
        endpoint=configured_endpoint() if session.platform.uses_aws else None,
        storage=prices.storage(region),
    )


def _has_local_storage(group: GroupCost) -> bool:
    known = catalogue.find(group.instance_type)
    return known is not None and bool(known.has_local_storage)


def _choice(group: InstanceGroup, instance_type: str) -> tuple[str, str, int]:
    return group.instance_group_name, instance_type, group.instance_count


def _hourly_price(group: GroupCost) -> float:
    return math.inf if group.per_hour is None else group.per_hour


def _region(session: PlatformSession) -> str | None:
    """Return the session's region; None where jobs are free, and where no region is configured."""
    try:
        return session.region if session.platform.bills else None
    except CloudError:
        return None
