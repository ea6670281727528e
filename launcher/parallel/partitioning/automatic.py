"""Automatic partitioning inside a job: rank 0 profiles, decides and broadcasts the result."""

from __future__ import annotations

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
from launcher.parallel.profiling import MakeOptimizer, Sample, link_speed, profile, repeated
from launcher.shared import Fingerprint, Link, Objective, PartitionFile, Schedule

#: The file with the decision, in the job's output folder.
FILE_NAME = "partition.json"


def auto_partition(
    model: nn.Module,
    world: ParallelContext,
    example: Mapping[str, object],
    *,
    loss: Callable[[Any, Any], torch.Tensor] | None,
    target: object,
    states: Callable[[], int],
    optimizer: MakeOptimizer | None,
) -> PartitionFile:
    """Return the partition of a model, the same on all ranks; all of them call it.

    Arguments as for `resolve_starts`. Raises ParallelError, on all ranks.
    """
    link = Link()
    if world.degrees.pipeline > 1 and world.dp_rank == 0:
        link = link_speed.measure_link(world.pp_group, world.device)
    broadcast: list[str | ParallelError] = [""]
    if world.rank == 0:
        sample = Sample(arguments=example, target=target, loss=loss)
        try:
            broadcast = [_decide(model, world, sample, link, states(), optimizer).to_json()]
        except Exception as error:  # noqa: BLE001 (the other ranks wait for it, and raise it too)
            broadcast = [_as_parallel_error(error)]
    dist.broadcast_object_list(broadcast, src=0, device=world.device)
    if isinstance(broadcast[0], ParallelError):
        raise broadcast[0]
    return PartitionFile.from_json(broadcast[0])


def _as_parallel_error(error: Exception) -> ParallelError:
    """Return an error that every rank can read, whatever the user's model or optimizer raised."""
    if isinstance(error, ParallelError):
        return error
    found = ParallelError(
        f"auto_partition failed on rank 0, which runs the model on its example: "
        f"{type(error).__name__}: {error}"
    )
    found.__cause__ = error
    return found


def _decide(
    model: nn.Module,
    world: ParallelContext,
    sample: Sample,
    link: Link,
    states: int,
    optimizer: MakeOptimizer | None,
) -> PartitionFile:
    """Decide on rank 0, or reuse an earlier decision of this job that matches."""
    here = fingerprint.compute(model, sample.arguments)
    path = Path(os.environ.get("SM_OUTPUT_DATA_DIR", "."), FILE_NAME)
    question = _question(world)
    if path.exists() and _matches(earlier := PartitionFile.read(path), here, question):
        return earlier
    found = repeated(
        lambda: profile(
            model,
            sample,
            device=world.device,
            precision=world.job.precision,
            states=states,
            optimizer=optimizer,
        )
    )
    partition = decide(found, here, link, question)
    _write(partition, path)
    print(
        f"partition: for {partition.objective}, stages start at {', '.join(partition.starts)}; a "
        f"step is predicted to take {partition.step:.3g} s; written to {path}",
        flush=True,
    )
    return partition


def _matches(earlier: PartitionFile, here: Fingerprint, question: PartitionQuestion) -> bool:
    asked = question.settings.items()
    same = all(getattr(earlier, name) == value for name, value in asked if name != "task")
    return same and earlier.fingerprint == here


def _write(partition: PartitionFile, path: Path) -> None:
    try:
        partition.write(path)
    except OSError as error:
        raise ParallelError(
            f"auto_partition cannot write its decision to {path}: {error.strerror}"
        ) from error


def _question(world: ParallelContext) -> PartitionQuestion:
    job, degrees = world.job, world.degrees
    return PartitionQuestion(
        partitions=degrees.pipeline,
        virtual_stages=degrees.virtual_stages,
        microbatches=degrees.microbatches,
        replicas=degrees.data,
        shard_degree=degrees.shard_degree,
        objective=Objective(job.optimize),
        schedule=Schedule(job.schedule),
        memory_cap=job.memory_cap,
        precision=job.precision,
        recomputed=job.recomputed,
    )
