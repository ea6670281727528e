"""The hosts of a job by group, and the selection of some of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.errors import Problem, SpecError
from launcher.shared import HOMOGENEOUS_GROUP, JobDocument, Role, choice_fix

if TYPE_CHECKING:
    from launcher.shared import GroupFields, ResourceFields, TrainingJobDescription


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
    """Return the hosts of a job without groups as one group; of preferred types, that selected."""
    group: GroupFields = {"InstanceGroupName": HOMOGENEOUS_GROUP}
    if name := resources.get("SelectedInstanceType", resources.get("InstanceType")):
        group["InstanceType"] = name
    count = resources.get("SelectedInstanceCount", resources.get("InstanceCount"))
    if count is not None:
        group["InstanceCount"] = count
    return group


def group_of_hosts(description: TrainingJobDescription) -> dict[str, str]:
    """Return the group of each host of a described job."""
    return {host: group.name for group in host_groups(description) for host in group.hosts}


def select_hosts(
    groups: Mapping[str, str], *, group: str | None, host: str | None
) -> frozenset[str]:
    """Return the hosts of a group, or the host with a name.

    groups: the group of each host. Raises SpecError for a group or host that the job does not have,
    and for a host of another group.
    """
    problems = [
        *_unknown("group", group, dict.fromkeys(groups.values())),
        *_unknown("host", host, groups),
    ]
    if not problems and group and host and groups[host] != group:
        what = f"the host {host!r} is not in the group {group!r}, but in {groups[host]!r}"
        problems.append(Problem(what=what, where="--host", fix="leave --group out"))
    if problems:
        raise SpecError(problems)
    return frozenset(
        name
        for name, group_name in groups.items()
        if host in (None, name) and group in (None, group_name)
    )


def training_hosts(
    groups: Mapping[str, str], document: JobDocument | None
) -> frozenset[str] | None:
    """Return the hosts that train; None (any host may) for a job without a job document."""
    if document is None:
        return None
    roles, leader = document.roles, document.trainer.group
    return frozenset(
        host for host, group in groups.items() if roles.get(group) is Role.TRAIN or group == leader
    )


def _unknown(kind: str, given: str | None, known: Mapping[str, object]) -> Iterator[Problem]:
    if given is not None and given not in known:
        yield Problem(
            what=f"the job has no {kind} {given!r}; it has {', '.join(known)}",
            where=f"--{kind}",
            fix=choice_fix(given, known),
        )
