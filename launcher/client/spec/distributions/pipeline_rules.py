"""Rules for pipelines: ranks per model, cuts and schedules.

Source of the limits of the schedules: torch.distributed.pipelining.schedules of torch 2.13.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client.spec.field_checks import is_typo, name_problems, range_problems, word_problems
from launcher.client.spec.job_parts import InstanceGroup
from launcher.client.spec.roles import job_roles, leading_group
from launcher.errors import FieldPath, Problem
from launcher.shared import PLACEMENTS, SCHEDULES, ParallelPart, Role

if TYPE_CHECKING:
    from launcher.client.spec.distributions.model_parallel import ModelParallel
    from launcher.client.spec.job_spec import JobSpec

#: The largest number of partitions that a fix suggests.
_MOST = 64


def find_problems(spec: JobSpec, model: ModelParallel) -> Iterator[Problem]:
    """Find problems with the cuts, the schedule and the ranks of a pipeline."""
    path = model.path
    part = model.parallel
    counts = ("partitions", "microbatches", "virtual_stages", "shard_degree")
    wrong = [
        problem
        for field in counts
        for problem in range_problems((*path, field), getattr(part, field), 1)
    ]
    yield from wrong
    yield from word_problems((*path, "placement"), part.placement, PLACEMENTS)
    yield from word_problems((*path, "schedule"), part.schedule, SCHEDULES)
    if (
        wrong or model.partition_file is not None
    ):  # the file has the rest; `model_parallel` checks it
        return
    about = tuple((*path, field) for field in counts)
    for problem in (
        *_schedule_problems(part, path),
        *_cut_problems(part, path),
        *_task_problems(spec, part, path),
        *_rank_problems(spec, model, path),
    ):
        yield dataclasses.replace(problem, about=(*problem.about, *about))


def _schedule_problems(model: ParallelPart, path: FieldPath) -> Iterator[Problem]:
    schedule, microbatches = (*path, "schedule"), (*path, "microbatches")
    if model.schedule == "simple" and model.virtual_stages > 1:
        what = f'virtual_stages is {model.virtual_stages}, and schedule is "simple"'
        fix = "write schedule: interleaved or zero_bubble, or remove virtual_stages"
        yield Problem(path=(*path, "virtual_stages"), about=(schedule,), what=what, fix=fix)
    count, partitions = model.microbatches, model.partitions
    rounds = count // partitions
    has_rounds = model.virtual_stages > 1 or model.schedule == "zero_bubble"
    if model.schedule != "simple" and rounds == 0:
        what = f"microbatches is {count}, fewer than the {partitions} partitions"
        fix = f"use {partitions} or more, or schedule: simple"
        yield Problem(path=microbatches, about=(schedule,), what=what, fix=fix)
    if model.schedule != "simple" and has_rounds and rounds and count % rounds:
        what = f"microbatches is {count}, which cannot be divided into {rounds} equal rounds"
        fix = f"use {rounds * partitions} or {(rounds + 1) * partitions}"
        yield Problem(path=microbatches, about=(schedule,), what=what, fix=fix)


def _cut_problems(model: ParallelPart, path: FieldPath) -> Iterator[Problem]:
    """Check that every stage gets a part of the model, and that only one way of cutting is used."""
    last = model.partitions * model.virtual_stages - 1
    yield from name_problems((*path, "starts"), model.starts)
    yield from range_problems((*path, "default_stage"), model.default_stage, 0, last)
    if model.starts and model.stages:
        what, fix = "starts and stages are both given", "remove one of them"
        yield Problem(path=(*path, "stages"), about=((*path, "starts"),), what=what, fix=fix)
    elif model.starts and len(model.starts) != last:
        what = f"{len(model.starts)} starts for {_stages(model)}"
        fix = f"name {last}: the modules at which all stages but the first begin"
        yield Problem(path=(*path, "starts"), what=what, fix=fix)
    elif model.stages:
        yield from _pin_problems(model, last, path)


def _pin_problems(model: ParallelPart, last: int, path: FieldPath) -> Iterator[Problem]:
    for name, stage in model.stages.items():
        if not 0 <= stage <= last:
            what = f'module "{name}" is pinned to stage {stage}, of {_stages(model)}'
            yield Problem(path=(*path, "stages", name), what=what, fix=f"use 0 to {last}")
    filled = {model.default_stage, *model.stages.values()}
    first = next((stage for stage in range(last + 1) if stage not in filled), None)
    if first is not None:
        empty = last + 1 - sum(0 <= stage <= last for stage in filled)
        what = f"{empty} of {_stages(model)} without a module: stage {first} is the first"
        fix = f"pin a module to each, or write default_stage: {first}"
        yield Problem(path=(*path, "stages"), what=what, fix=fix)


def _stages(model: ParallelPart) -> str:
    count = model.partitions * model.virtual_stages
    words = f"{count} stages" if count > 1 else "1 stage"
    if model.virtual_stages == 1:
        return words
    return f"{words} ({model.partitions} partitions x {model.virtual_stages})"


def _task_problems(spec: JobSpec, model: ParallelPart, path: FieldPath) -> Iterator[Problem]:
    """Require a cut for a task: unlike a script, our trainer cannot choose one itself."""
    last = model.partitions * model.virtual_stages - 1
    if spec.task and last and not (model.starts or model.stages or model.auto_partition):
        yield Problem(
            path=(*path, "starts"),
            about=(("task",),),
            what=f"nothing specifies where the task's model is cut into {_stages(model)}",
            fix=f"write starts: [...], {last} of the model's modules, stages: {{module: stage}}, "
            "a partition_file, or auto_partition: true",
        )


def _rank_problems(spec: JobSpec, model: ModelParallel, path: FieldPath) -> Iterator[Problem]:
    """Check that partitions divide the ranks, on each instance type that the job may get.

    The shards of a stage must divide the replicas that this makes.
    """
    partitions, shards = model.parallel.partitions, model.parallel.shard_degree
    for group in _train_groups(spec):
        for name, count in spec.choices(group):
            processes = model.processes_on(name)
            ranks = count * processes
            if ranks < 1 or is_typo(name):
                continue
            hosts = f"{count} x {name}, {processes} per host"
            if ranks % partitions:
                what = f"partitions is {partitions}, which does not divide the ranks: {ranks}"
                yield _rank_problem((*path, "partitions"), f"{what} ({hosts})", ranks)
            elif (replicas := ranks // partitions) % shards:
                what = f"shard_degree is {shards}, which does not divide the replicas: {replicas}"
                whole = f"{what} ({hosts}, {partitions} partitions)"
                yield _rank_problem((*path, "shard_degree"), whole, replicas)


def _rank_problem(path: FieldPath, what: str, count: int) -> Problem:
    """Return the problem of a field that does not divide a count."""
    divisors = [n for n in range(1, min(count, _MOST) + 1) if count % n == 0]
    return Problem(
        path=path,
        about=(("instance_groups",), ("instance_type",), ("instance_count",)),
        what=what,
        fix=f"use {' or '.join(map(str, divisors))}, or other hosts or processes",
    )


def _train_groups(spec: JobSpec) -> list[InstanceGroup]:
    roles, _ = job_roles(spec)
    trainers = [g for g in spec.groups if roles.get(g.instance_group_name) is Role.TRAIN]
    leader = leading_group(spec, roles)
    return trainers or ([leader] if leader else [])
