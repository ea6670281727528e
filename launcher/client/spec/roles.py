"""Inference of the groups' roles where the job does not set them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from launcher.client import catalogue
from launcher.client.spec.job_parts import InstanceGroup
from launcher.errors import Problem, SpecError
from launcher.shared import Lifetime, Role

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec

#: Words in a group's name that indicate its role.
_WORDS = {
    Role.DATA: {"data", "cpu", "preprocess", "preprocessing", "loader", "loading"},
    Role.TRAIN: {"train", "training", "trainer", "dnn", "gpu"},
}
#: The fix for a group of a job with a script and without a data service.
_THREE_WAYS = (
    'add a role ("role: script" runs the script there too, "role: train" trains there alone), a '
    "command that its hosts run, or a data_service with the datasets that they serve"
)
#: Instance families with accelerators, for types that are not in the catalogue.
_ACCELERATED_FAMILY = re.compile(r"ml\.(g|p|trn|inf)\d")


def infer_roles(
    groups: Sequence[InstanceGroup],
    has_data_service: bool = False,
    *,
    scope: Collection[str] = (),
    runs_script: bool = True,
) -> Mapping[str, Role]:
    """Return the role of each group, by name; the first rule that applies decides.

    1. A role that the group has.
    2. A group with a command runs it; the rules below ignore it.
    3. With a data service, or without a script: the group that the distribution names trains, or
       the only one, or the only one with accelerators; a name may indicate the role ("data_group",
       "cpu", "train", "dnn_group"); beside a train group, those without accelerators prepare data.
    4. A single group trains.
    5. Two or more groups without a role run the script, each on all of its hosts.

    scope: the groups that the distribution names. runs_script: false for a task, or where AWS's
    toolkit starts the script.

    Raises SpecError for groups whose role is ambiguous.

    >>> groups = [InstanceGroup("a", "ml.c5.2xlarge", 2), InstanceGroup("b", "ml.g4dn.xlarge")]
    >>> {name: role.value for name, role in infer_roles(groups, True).items()}
    {'a': 'data', 'b': 'train'}
    >>> {name: role.value for name, role in infer_roles(groups).items()}
    {'a': 'script', 'b': 'script'}
    """
    roles, unclear = assign_roles(groups, has_data_service, scope=scope, runs_script=runs_script)
    if unclear:
        raise SpecError(unclear)
    return roles


def assign_roles(
    groups: Sequence[InstanceGroup],
    has_data_service: bool,
    *,
    scope: Collection[str] = (),
    runs_script: bool = True,
    servers: str | None = None,
) -> tuple[Mapping[str, Role], list[Problem]]:
    """Return the unambiguous roles, and a problem for each other group.

    servers: the distribution's server group, which is like a group with a command.
    """
    groups = [_with_servers_role(group, servers) for group in groups]
    may_be_script = runs_script and not has_data_service
    undeclared = [group for group in groups if group.role is None and not group.command]
    hints = [
        {Role.SCRIPT}
        if may_be_script and group in undeclared and len(undeclared) > 1
        else _hints(group, groups, scope)
        for group in groups
    ]
    trains = any(hint == {Role.TRAIN} for hint in hints)
    roles: dict[str, Role] = {}
    unclear = []
    for index, (group, hint) in enumerate(zip(groups, hints, strict=True)):
        if not hint and trains and has_data_service and not _has_accelerators(group):
            hint = {Role.DATA}
        if group in undeclared and may_be_script and hint == {Role.DATA}:
            hint = set()  # no data service, so it cannot prepare data
        if len(hint) == 1:
            roles[group.instance_group_name] = next(iter(hint))
        else:
            problem = _unclear(index, group, contradiction=len(hint) > 1, script=may_be_script)
            unclear.append(problem)
    return roles, unclear


def job_roles(spec: JobSpec) -> tuple[Mapping[str, Role], list[Problem]]:
    """Return the unambiguous roles of a job's groups, and a problem for each other group."""
    return assign_roles(
        spec.groups,
        spec.data_service is not None,
        scope=scope_of(spec),
        runs_script=spec.task is None and not spec.starts_toolkit,
        servers=_server_group_of(spec),
    )


def scope_of(spec: JobSpec) -> tuple[str, ...]:
    """Return the groups that the distribution names; before the rules, it may be of any type."""
    named = getattr(spec.distribution, "instance_groups", ())
    return tuple(named) if isinstance(named, tuple) else ()


def _server_group_of(spec: JobSpec) -> str | None:
    """Return the server group of the distribution, which may be of any type before the rules."""
    named = getattr(spec.distribution, "server_group", None)
    return named if isinstance(named, str) else None


def _with_servers_role(group: InstanceGroup, servers: str | None) -> InstanceGroup:
    """Return the group, with the role of a command group if it is the distribution's servers'."""
    if group.instance_group_name != servers or group.role is not None:
        return group
    return dataclasses.replace(group, role=Role.COMMAND)


def leading_group(spec: JobSpec, roles: Mapping[str, Role]) -> InstanceGroup | None:
    """Return the group that the others refer to, or None if there is none.

    The train group; else the script group that the distribution names; else the first script group
    that does not itself end with another.
    """
    named = scope_of(spec)
    scripts = [g for g in spec.groups if roles.get(g.instance_group_name) is Role.SCRIPT]
    candidates = [
        *(g for g in spec.groups if roles.get(g.instance_group_name) is Role.TRAIN),
        *(g for g in scripts if g.instance_group_name in named),
        *(g for g in scripts if g.lifetime is not Lifetime.TRAIN),
    ]
    return next(iter(candidates), None)


def _hints(
    group: InstanceGroup, groups: Sequence[InstanceGroup], scope: Collection[str]
) -> set[Role]:
    if group.role is not None:
        return {group.role}
    if group.command:
        return {Role.COMMAND}
    others = [other for other in groups if not other.command and other.role is not Role.COMMAND]
    if len(others) == 1 or group.instance_group_name in scope:
        return {Role.TRAIN}
    words = set(re.findall(r"[a-z]+", group.instance_group_name.lower()))
    hints = {role for role, known in _WORDS.items() if words & known}
    if _is_only_one_with_accelerators(group, others, scope):
        hints.add(Role.TRAIN)
    return hints


def _is_only_one_with_accelerators(
    group: InstanceGroup, groups: Sequence[InstanceGroup], scope: Collection[str]
) -> bool:
    trained_elsewhere = any(
        other.role is Role.TRAIN or other.instance_group_name in scope for other in groups
    )
    return not trained_elsewhere and [g for g in groups if _has_accelerators(g)] == [group]


def _has_accelerators(group: InstanceGroup) -> bool:
    known = catalogue.find(group.instance_type)
    if known is not None:
        return known.accelerators > 0
    return _ACCELERATED_FAMILY.match(group.instance_type) is not None


def _unclear(index: int, group: InstanceGroup, *, contradiction: bool, script: bool) -> Problem:
    reason = (
        "its name and its instance type suggest different roles"
        if contradiction
        else "neither its name nor its instance type shows it"
    )
    return Problem(
        path=("instance_groups", index),
        what=f'it is not clear what group "{group.instance_group_name}" does: {reason}',
        fix=_THREE_WAYS if script else 'add "role: train" or "role: data" to the group',
    )
