"""Automatic partitioning inside a job: rank 0 profiles, decides and broadcasts the result."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from launcher.errors import ParallelError
from launcher.parallel import fingerprint
from launcher.parallel.context import ParallelContext
from launcher.parallel.partitioning.decision import PartitionQuestion, decide
from launcher.parallel.profiling import link_speed
from launcher.parallel.profiling.profile import Sample, profile
from launcher.shared import Objective, Schedule
from launcher.shared.partitions.partition_file import Fingerprint, Partition
from launcher.shared.partitions.stage_costs import Link

#: The file that keeps the decision, in the job's output folder.
KEPT = "partition.json"


def auto_partition(
    model: nn.Module,
    world: ParallelContext,
    example: Mapping[str, Any],
    *,
    loss: Callable[[Any, Any], torch.Tensor] | None,
    target: Any,
    states: int,
) -> Partition:
    """Return the partition of a model, the same on all ranks; all of them call it.

    Arguments as for `planned.starts`. Raises ParallelError, on all ranks.
    """
    link = Link()
    if world.degrees.pipeline > 1 and world.dp_rank == 0:
        link = link_speed.measured(world.pp_group, world.device)
    told: list[str | ParallelError] = [""]
    if world.rank == 0:
        sample = Sample(arguments=example, target=target, loss=loss)
        try:
            told = [_decided(model, world, sample, link, states).to_json()]
        except ParallelError as error:
            told = [error]
    dist.broadcast_object_list(told, src=0, device=world.device)
    if isinstance(told[0], ParallelError):
        raise told[0]
    return Partition.from_json(told[0])


def _decided(
    model: nn.Module, world: ParallelContext, sample: Sample, link: Link, states: int
) -> Partition:
    """Decide on rank 0, or reuse an earlier decision of this job that matches."""
    here = fingerprint.taken(model, sample.arguments)
    path = Path(os.environ.get("SM_OUTPUT_DATA_DIR", "."), KEPT)
    question = _question(world)
    if path.exists() and _answers(kept := Partition.read(path), here, question):
        return kept
    costs = profile(
        model, sample, device=world.device, precision=world.job.precision, states=states
    )
    decided = decide(costs, here, link, question)
    _keep(decided, path)
    print(
        f"partition: for {decided.objective}, stages start at {', '.join(decided.starts)}; a step "
        f"is predicted to take {decided.step:.3g} s; kept as {path}",
        flush=True,
    )
    return decided


def _answers(kept: Partition, here: Fingerprint, question: PartitionQuestion) -> bool:
    asked = [each.name for each in dataclasses.fields(question) if each.name != "task"]
    same = all(getattr(kept, name) == getattr(question, name) for name in asked)
    return same and kept.fingerprint == here


def _keep(decided: Partition, path: Path) -> None:
    try:
        decided.write(path)
    except OSError as error:
        raise ParallelError(
            f"{path} cannot be written, where auto_partition keeps its decision: {error.strerror}"
        ) from error


def _question(world: ParallelContext) -> PartitionQuestion:
    job, degrees = world.job, world.degrees
    return PartitionQuestion(
        partitions=degrees.pipeline,
        virtual_stages=degrees.virtual_stages,
        microbatches=degrees.microbatches,
        objective=Objective(job.optimize),
        schedule=Schedule(job.schedule),
        memory_cap=job.memory_cap,
        precision=job.precision,
        recomputed=job.recomputed,
    )
