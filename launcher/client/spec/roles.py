"""Inference of the groups' roles where the job does not set them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from launcher.client import catalogue
from launcher.client.spec.groups import InstanceGroup
from launcher.errors import Problem, SpecError
from launcher.shared import Role

#: Words in a group's name that indicate its role.
_WORDS = {
    Role.DATA: {"data", "cpu", "preprocess", "preprocessing", "loader", "loading"},
    Role.TRAIN: {"train", "training", "trainer", "dnn", "gpu"},
}
#: Instance families with accelerators, for types that are not in the catalogue.
_ACCELERATED_FAMILY = re.compile(r"ml\.(g|p|trn|inf)\d")


def infer_roles(
    groups: Sequence[InstanceGroup], has_data_service: bool = False
) -> Mapping[str, Role]:
    """Return the role of each group, by name.

    An explicit role wins. A group with a command runs it, and the rules below ignore it. A single
    group trains. The only group with accelerators trains. A name may indicate the role
    ("data_group", "cpu", "train", "dnn_group"). With a data service and a train group, the groups
    without accelerators prepare data.

    Raises SpecError for groups whose role is ambiguous.

    >>> groups = [InstanceGroup("a", "ml.c5.2xlarge", 2), InstanceGroup("b", "ml.g4dn.xlarge")]
    >>> {name: role.value for name, role in infer_roles(groups, True).items()}
    {'a': 'data', 'b': 'train'}
    """
    roles, unclear = assign_roles(groups, has_data_service)
    if unclear:
        raise SpecError(unclear)
    return roles


def assign_roles(
    groups: Sequence[InstanceGroup], has_data_service: bool
) -> tuple[Mapping[str, Role], list[Problem]]:
    """Return the unambiguous roles, and a problem for each other group."""
    hints = [_hints(group, groups) for group in groups]
    trains = any(hint == {Role.TRAIN} for hint in hints)
    roles: dict[str, Role] = {}
    unclear = []
    for index, (group, hint) in enumerate(zip(groups, hints, strict=True)):
        if not hint and trains and has_data_service and not _has_accelerators(group):
            hint = {Role.DATA}
        if len(hint) == 1:
            roles[group.instance_group_name] = next(iter(hint))
        else:
            unclear.append(_unclear(index, group, contradiction=len(hint) > 1))
    return roles, unclear


def _hints(group: InstanceGroup, groups: Sequence[InstanceGroup]) -> set[Role]:
    if group.role is not None:
        return {group.role}
    if group.command:
        return {Role.COMMAND}
    others = [other for other in groups if not other.command]
    if len(others) == 1:
        return {Role.TRAIN}
    words = set(re.findall(r"[a-z]+", group.instance_group_name.lower()))
    hints = {role for role, known in _WORDS.items() if words & known}
    if _is_only_one_with_accelerators(group, others):
        hints.add(Role.TRAIN)
    return hints


def _is_only_one_with_accelerators(group: InstanceGroup, groups: Sequence[InstanceGroup]) -> bool:
    trained_elsewhere = any(other.role is Role.TRAIN for other in groups)
    return not trained_elsewhere and [g for g in groups if _has_accelerators(g)] == [group]


def _has_accelerators(group: InstanceGroup) -> bool:
    known = catalogue.find(group.instance_type)
    if known is not None:
        return known.accelerators > 0
    return _ACCELERATED_FAMILY.match(group.instance_type) is not None


def _unclear(index: int, group: InstanceGroup, *, contradiction: bool) -> Problem:
    reason = (
        "its name and its instance type say different things"
        if contradiction
        else "neither its name nor its instance type says it"
    )
    return Problem(
        path=("instance_groups", index),
        what=f'it is not clear what group "{group.instance_group_name}" does: {reason}',
        fix='add "role: train" or "role: data" to the group',
    )
