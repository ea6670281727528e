"""The plan of a job: its groups with their prices, and the places of code, output and hosts."""

from __future__ import annotations

from dataclasses import dataclass

from launcher import catalogue
from launcher.catalogue.cost import Estimate, estimate
from launcher.errors import CloudError
from launcher.plan.html import plan_html
from launcher.plan.text import plan_text
from launcher.request.builder import Placement
from launcher.sessions.base import LOCAL_REGION, Session
from launcher.spec import JobSpec
from launcher.spec.roles import assign_roles


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A job that is not sent yet, and what it may cost: an estimate, without storage.

    roles: by the name of a group; None where it is not clear yet. placement: None when it is not
    known yet.
    """

    spec: JobSpec
    estimate: Estimate
    roles: dict[str, str | None]
    placement: Placement | None

    @property
    def max_seconds(self) -> int:
        """The longest that its instances are billed for."""
        return self.spec.max_run

    @property
    def max_dollars(self) -> float | None:
        """USD when it runs for so long; None when a price is not known."""
        return self.estimate.dollars(self.max_seconds)

    def __repr__(self) -> str:
        return plan_text(self)

    def _repr_html_(self) -> str:
        return plan_html(self)


def plan_job(spec: JobSpec, session: Session, placement: Placement | None = None) -> Plan:
    """The plan of a spec on a session; nothing is asked of AWS.

    Raises SpecError when the user's own file of prices is wrong.
    """
    groups = [
        (group.instance_group_name, group.instance_type, group.instance_count)
        for group in spec.groups
    ]
    roles, _ = assign_roles(spec.groups, spec.data_service is not None)
    return Plan(
        spec=spec,
        estimate=estimate(groups, catalogue.price_list(), _region(session)),
        roles={name: roles[name].value if name in roles else None for name, _, _ in groups},
        placement=placement,
    )


def _region(session: Session) -> str | None:
    """None on this machine, and where no region is configured."""
    try:
        return None if session.region == LOCAL_REGION else session.region
    except CloudError:
        return None
