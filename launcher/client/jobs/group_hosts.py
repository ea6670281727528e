"""The hosts of a job, by group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.shared import HOMOGENEOUS_GROUP

if TYPE_CHECKING:
    from launcher.shared.training_job_types import (
        GroupFields,
        ResourceFields,
        TrainingJobDescription,
    )


@dataclass(frozen=True, kw_only=True)
class HostGroup:
    """One group of a job as requested: its name, type, and hosts in numeric order."""

    name: str
    instance_type: str
    hosts: tuple[str, ...]


def host_groups(description: TrainingJobDescription) -> list[HostGroup]:
    """Return the groups of a described job, numbering algo-1..N in the order of the groups.

    SageMaker does not document that order; inside a job resourceconfig.json is the authority.
    A serverless job has no groups, since no description names its machines.
    """
    resources = description.get("ResourceConfig", {})
    requested = resources.get("InstanceGroups") or [_only_group(resources)]
    groups, first = [], 1
    for group in requested:
        if "InstanceType" not in group or "InstanceCount" not in group:
            continue
        beyond = first + group["InstanceCount"]
        groups.append(
            HostGroup(
                name=group["InstanceGroupName"],
                instance_type=group["InstanceType"],
                hosts=tuple(f"algo-{number}" for number in range(first, beyond)),
            )
        )
        first = beyond
    return groups


def _only_group(resources: ResourceFields) -> GroupFields:
    """Return the hosts of a job without groups as one group."""
    group: GroupFields = {"InstanceGroupName": HOMOGENEOUS_GROUP}
    if "InstanceType" in resources and "InstanceCount" in resources:
        group["InstanceType"] = resources["InstanceType"]
        group["InstanceCount"] = resources["InstanceCount"]
    return group


def group_of_hosts(description: TrainingJobDescription) -> dict[str, str]:
    """Return the group of each host of a described job."""
    return {host: group.name for group in host_groups(description) for host in group.hosts}
