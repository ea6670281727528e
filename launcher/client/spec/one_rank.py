"""Reduce a job to rank 0, loading in process, for `launcher run --debug`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from launcher.client.spec.job_parts import InstanceGroup, TrainingInput
from launcher.client.spec.job_spec import JobSpec
from launcher.client.spec.roles import job_roles, leading_group
from launcher.errors import Problem, SpecError
from launcher.shared import DEBUG_VARIABLE, STREAM_WORLD_VARIABLE, Role


def as_one_rank(spec: JobSpec, debugger: str) -> JobSpec:
    """Return the job that runs rank 0 of a job alone, under a debugger on the user's terminal.

    Its loaders read that rank's batches, which are prepared in the process: there is no data group.
    Groups with a command stay, since the script may need them.

    debugger: the value of LAUNCHER_DEBUG. Raises SpecError for a job that has no such rank.
    """
    roles, problems = job_roles(spec)
    train = leading_group(spec, roles)
    if problems := [*problems, *_problems(spec, roles)]:
        raise SpecError(problems)
    if train is None:
        return spec  # the rules say what the job lacks
    part = spec.distribution and spec.distribution.trainer_part(spec, train.instance_type)
    world = train.instance_count * (part.processes_per_host if part else 1)
    stream = {STREAM_WORLD_VARIABLE: str(world)} if world > 1 else {}
    return spec.replace(
        **_machines(spec, train, roles),
        distribution=_of_one_process(spec),
        inputs={name: _for_all(channel) for name, channel in spec.inputs.items()},
        environment={**spec.environment, **stream, DEBUG_VARIABLE: debugger},
        data_service=None,
        tracking=None,  # nothing that the rank prints is in the job's log
    )


def _problems(spec: JobSpec, roles: Mapping[str, Role]) -> Iterator[Problem]:
    """Find what keeps rank 0 from running alone."""
    scripts = [name for name, role in roles.items() if role is Role.SCRIPT]
    if scripts:
        what = f"the script runs on the hosts of {' and '.join(scripts)}, and differs with the host"
        fix = "give each group a role or a command; or run the script yourself, without a job"
        yield Problem(path=("instance_groups",), what=what, fix=fix)
    kind = spec.distribution
    if kind is not None and not kind.has_whole_rank:
        what = f"{kind.title()} divides one program over processes, and --debug runs one rank"
        fix = "debug the script without it: --set distribution=data_parallel"
        yield Problem(path=("distribution",), what=what, fix=fix)


def _machines(spec: JobSpec, train: InstanceGroup, roles: Mapping[str, Role]) -> dict[str, object]:
    """Return the fields of the machines: one host that trains, and the groups with a command."""
    if not spec.instance_groups:
        return {"instance_count": 1}
    alone = dataclasses.replace(train, instance_count=1, role=Role.TRAIN)
    kept = (alone if group == train else group for group in spec.instance_groups)
    return {
        "instance_groups": [
            group for group in kept if roles[group.instance_group_name] is not Role.DATA
        ]
    }


def _of_one_process(spec: JobSpec) -> object:
    """Return the distribution with one process on each host."""
    if not hasattr(spec.distribution, "processes_per_host"):
        return spec.distribution
    return dataclasses.replace(spec.distribution, processes_per_host=1)  # type: ignore[type-var]


def _for_all(channel: object) -> object:
    """Return the channel for every host: the rank reads those of the data group, too."""
    if not isinstance(channel, TrainingInput):
        return channel
    return dataclasses.replace(channel, instance_groups=())
