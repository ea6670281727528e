"""Rules for the machines: groups, types, counts, roles, provisioning, and which group leads.

Sources: CreateTrainingJob's ResourceConfig, and the limits of heterogeneous clusters,
https://docs.aws.amazon.com/sagemaker/latest/dg/train-heterogeneous-cluster.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from launcher.client import catalogue
from launcher.client.spec.field_checks import groups_with_paths, is_typo
from launcher.client.spec.job_fields import JobFields
from launcher.client.spec.job_parts import LOCAL_TYPES, InstanceGroup
from launcher.client.spec.roles import job_roles, leading_group, scope_of
from launcher.errors import FieldPath, Problem
from launcher.shared import Lifetime, Role, choice_fix

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec


_GROUPS = ("instance_groups",)
_EMPTY = JobFields()


def find_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with the machines."""
    yield from _one_way_to_say_it(spec)
    yield from _preference_problems(spec)
    yield from _serverless_problems(spec)
    for path, group in groups_with_paths(spec):
        if spec.instance_groups or spec.instance_type:
            yield from type_problems(group.instance_type, (*path, "instance_type"))
        if group.instance_count < 1:
            yield Problem(
                path=(*path, "instance_count"),
                what=f"{_name(spec, group)} has {group.instance_count} instances",
                fix="use 1 or more",
            )
    yield from _local_and_cloud(spec)
    yield from _name_problems(spec)
    has_typo = any(is_typo(group.instance_type) for group in spec.groups)
    if spec.starts_launcher and not has_typo and _are_distinct(spec):
        yield from _role_problems(spec)


def _one_way_to_say_it(spec: JobSpec) -> Iterator[Problem]:
    if not spec.groups and not spec.instance_preferences and not spec.is_serverless:
        yield Problem(
            path=_GROUPS,
            about=(("instance_type",),),
            what="the job has no machines",
            fix="write instance_groups, or instance_type and instance_count "
            "(instance_type: local is this machine), or instance_preferences",
        )
    for field in ("instance_type", "instance_count"):
        if spec.instance_groups and getattr(spec, field) is not None:
            yield Problem(
                path=(field,),
                what=f"{field} is given beside instance_groups",
                fix=f"remove {field}, or instance_groups",
            )


def _preference_problems(spec: JobSpec) -> Iterator[Problem]:
    for index, preference in enumerate(spec.instance_preferences):
        name, path = preference.get("InstanceType"), ("instance_preferences", index, "InstanceType")
        if name in LOCAL_TYPES:
            what, fix = f'"{name}" is given as a preference', f"write instance_type: {name} alone"
            yield Problem(path=path, what=what, fix=fix)
        elif isinstance(name, str):  # the model of the API reports others
            yield from type_problems(name, path)


def _serverless_problems(spec: JobSpec) -> Iterator[Problem]:
    for name in sorted(spec.chosen_fields):
        if getattr(spec, name) != getattr(_EMPTY, name):
            what = f"{name} is given for a serverless job, whose machines and program AWS chooses"
            fix = f"remove {name}, or ServerlessJobConfig from extra_request"
            yield Problem(path=(name,), what=what, fix=fix)


def type_problems(name: str, path: FieldPath) -> Iterator[Problem]:
    """Find a misspelled type; a plausible one missing from the catalogue is only a warning."""
    if catalogue.find(name):
        return
    near = catalogue.near(name)
    hint = f'did you mean "{near[0]}"?' if near else "use a type such as ml.c5.2xlarge, or local"
    if is_typo(name):
        yield Problem(path=path, what=f'"{name}" is not an instance type', fix=hint)
    else:
        yield Problem(
            path=path,
            what=f'instance type "{name}" is not in the catalogue; it is sent as it is',
            fix=hint if near else "nothing, if SageMaker has it",
            is_warning=True,
        )


def _local_and_cloud(spec: JobSpec) -> Iterator[Problem]:
    local = [group.is_local for group in spec.groups]
    if any(local) and not all(local):
        index = local.index(True)
        yield Problem(
            path=(*_GROUPS, index, "instance_type"),
            what=f'"{spec.groups[index].instance_type}" is used together with cloud instance types',
            fix=f"use {' or '.join(LOCAL_TYPES)} for every group, or for none",
        )


def _name_problems(spec: JobSpec) -> Iterator[Problem]:
    for index, group in enumerate(spec.instance_groups):
        name = group.instance_group_name
        if not name.isprintable():
            what = f"{json.dumps(name, ensure_ascii=False)} cannot be the name of a group"
            path = (*_GROUPS, index, "instance_group_name")
            yield Problem(path=path, what=what, fix="use printable characters")


def _are_distinct(spec: JobSpec) -> bool:
    return len({group.instance_group_name for group in spec.groups}) == len(spec.groups)


def _role_problems(spec: JobSpec) -> Iterator[Problem]:
    roles, unclear = job_roles(spec)
    yield from unclear
    yield from _trainers(spec, roles, everything_is_clear=not unclear)
    for path, group in groups_with_paths(spec):
        role = roles.get(group.instance_group_name)
        if role is Role.DATA and not group.command and not spec.data_service:
            yield Problem(
                path=("data_service",),
                about=(path,),
                what=f"{_name(spec, group)} prepares data, but nothing is served",
                fix="add data_service: {}, which serves the datasets that the script asks for",
            )
            return


def _trainers(
    spec: JobSpec, roles: Mapping[str, Role], *, everything_is_clear: bool
) -> Iterator[Problem]:
    trainers = [
        (path, group)
        for path, group in groups_with_paths(spec)
        if roles.get(group.instance_group_name) is Role.TRAIN
    ]
    runs_script = Role.SCRIPT in roles.values() and spec.data_service is None
    if spec.groups and everything_is_clear and not trainers and not runs_script:
        fix = 'write "role: train" in the group that runs the training script'
        if all(group.command for group in spec.groups):
            fix = "add the group that runs the training script; commands run beside it"
        yield Problem(path=_GROUPS, what="no group trains", fix=fix)
    for path, group in trainers[1:]:
        yield Problem(
            path=path,
            what=f"{_name(spec, group)} trains, and so does {_name(spec, trainers[0][1])}",
            fix='keep one train group; write "role: data" in the others',
        )


def _name(spec: JobSpec, group: InstanceGroup) -> str:
    return f'group "{group.instance_group_name}"' if spec.instance_groups else "the job"


def capacity_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with alternative types, and with the wait for capacity."""
    for path, group in groups_with_paths(spec):
        yield from _alternative_problems(group, (*path, "alternatives"))
        yield from _key_problems(spec, group, path)


def _key_problems(spec: JobSpec, group: InstanceGroup, path: FieldPath) -> Iterator[Problem]:
    """Find a volume key for an alternative; only the first type is in the request."""
    known = [catalogue.find(name) for name in group.alternatives]
    encrypted = [each.name for each in known if each is not None and each.has_local_storage]
    if spec.volume_kms_key is not None and encrypted:
        yield Problem(
            path=("volume_kms_key",),
            about=(path,),
            what=f"{encrypted[0]} has disks of its own, which no KMS key of yours can encrypt",
            fix="remove volume_kms_key (its hardware encrypts them), or use a type without NVMe",
        )


def _alternative_problems(group: InstanceGroup, path: FieldPath) -> Iterator[Problem]:
    seen = [group.instance_type]
    for index, name in enumerate(group.alternatives):
        here = (*path, index)
        if name in LOCAL_TYPES or group.is_local:
            what = f'"{name}" cannot be an alternative of "{group.instance_type}"'
            fix = "remove it: local groups need no alternatives"
            yield Problem(path=here, what=what, fix=fix)
        elif name in seen:
            yield Problem(path=here, what=f'"{name}" is listed before', fix="keep one of them")
        else:
            yield from type_problems(name, here)
        seen.append(name)


def script_group_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find problems with the distribution's group and with groups that run the script."""
    if not spec.starts_launcher:
        return
    roles, unclear = job_roles(spec)
    yield from _scope_problems(spec, roles)
    scripts = [name for name, role in roles.items() if role is Role.SCRIPT]
    if not scripts or unclear:
        return
    yield from _task_problems(spec)
    if Role.TRAIN not in roles.values():
        yield from _leader_problems(spec, roles, scripts)


def _scope_problems(spec: JobSpec, roles: Mapping[str, Role]) -> Iterator[Problem]:
    """Find a distribution that names several groups, an absent one, or one without the script."""
    named = scope_of(spec)
    path = ("distribution", "instance_groups")
    known = [group.instance_group_name for group in spec.groups]
    if len(named) > 1:
        what = f"the distribution names {len(named)} groups: {', '.join(named)}"
        yield Problem(path=path, what=what, fix="keep one of them; it runs on one group")
    for name in named:
        if name not in known:
            what = f'the distribution runs on group "{name}", which is not in the job'
            yield Problem(path=path, what=what, fix=choice_fix(name, known))
        elif roles.get(name) not in (Role.TRAIN, Role.SCRIPT, None):
            what = f'the distribution runs on group "{name}", whose role is "{roles[name].value}"'
            yield Problem(path=path, what=what, fix="name the group that trains")
        elif roles.get(name) is Role.SCRIPT and Role.TRAIN in roles.values():
            what = f'the distribution runs on group "{name}", but another group trains'
            yield Problem(path=path, what=what, fix=f'remove "role: train", or name "{name}" there')


def _task_problems(spec: JobSpec) -> Iterator[Problem]:
    for path, group in groups_with_paths(spec):
        if spec.task is not None and group.role is Role.SCRIPT:
            what = f'group "{group.instance_group_name}" runs the script, but the job has a task'
            fix = 'write "role: train" in the group that trains, and a command in the others'
            yield Problem(path=(*path, "role"), about=(("task",),), what=what, fix=fix)


def _leader_problems(
    spec: JobSpec, roles: Mapping[str, Role], scripts: list[str]
) -> Iterator[Problem]:
    """Find groups that cannot be told apart, or that would wait for each other's end."""
    lines = " or ".join(f"instance_groups: [{name}]" for name in scripts)
    if spec.distribution is not None and not scope_of(spec) and len(scripts) > 1:
        yield Problem(
            path=("distribution",),
            about=(("instance_groups",),),
            what=f"the distribution names no group, and {len(scripts)} groups run the script: "
            f"{', '.join(scripts)}",
            fix=f"write in the distribution where it runs: {lines}",
        )
    leader = leading_group(spec, roles)
    if leader is None or leader.lifetime is Lifetime.TRAIN:
        name = scripts[0] if leader is None else leader.instance_group_name
        path = next(p for p, g in groups_with_paths(spec) if g.instance_group_name == name)
        yield Problem(
            path=(*path, "lifetime"),
            what=f'lifetime "train" of group "{name}" refers to no other group',
            fix="remove it; the job ends with this group's script",
        )
