"""Rules for script groups: which group leads them, and where the distribution runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from launcher.client.spec.field_checks import groups_with_paths
from launcher.client.spec.roles import job_roles, leading_group, scope_of
from launcher.errors import Problem
from launcher.shared import Lifetime, Role, choice_fix

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec


def find_problems(spec: JobSpec) -> Iterator[Problem]:
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
