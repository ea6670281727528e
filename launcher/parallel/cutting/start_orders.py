"""The cuts of a pipeline whose script gives none: from the job, a file, or auto_partition."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from launcher.errors import ParallelError
from launcher.parallel import fingerprint
from launcher.parallel.context import ParallelContext
from launcher.parallel.cuts import Pins
from launcher.parallel.cutting.shapes import has_weights, shapes_only
from launcher.parallel.stage_list import StageList
from launcher.shared import PartitionFile

if TYPE_CHECKING:
    from launcher.parallel.profiling import MakeOptimizer


def resolve_starts(
    model: nn.Module,
    world: ParallelContext,
    example: Mapping[str, object],
    *,
    loss: Callable[[Any, Any], torch.Tensor] | None = None,
    target: object = None,
    states: Callable[[], int] = lambda: 2,
    optimizer: MakeOptimizer | None = None,
) -> Sequence[str] | Pins:
    """Return the first module of each stage but the first, or the pins, as the job sets them.

    All ranks call it, with the same model on the CPU.

    example, loss, target: the arguments, loss and target of one microbatch, for auto_partition.
    states: returns how many tensors the optimizer keeps per parameter; called for auto_partition,
        on rank 0. optimizer: makes the job's, of a list of parameters, whose step is then timed.

    Raises ParallelError for a file of another model, and if no cuts can be found.
    """
    job = world.job
    if isinstance(model, StageList):
        return model.starts(world)
    if job.stages:
        return Pins(stages=job.stages, default=job.default_stage)
    if job.partition_file:
        return _starts_in_file(model, world, example)
    if job.auto_partition and world.degrees.stages > 1:
        # Imported here because a job with a file does not need the profiler.
        if not has_weights(model):
            raise ParallelError(
                "auto_partition measures the model, which has no weights yet: give the job a file "
                "of `launcher plan cut`, or starts"
            )
        from launcher.parallel.partitioning import auto_partition

        found = auto_partition(
            model,
            world,
            example,
            loss=loss,
            target=target,
            states=states,
            optimizer=optimizer,
        )
        return found.starts
    return job.starts


def _starts_in_file(
    model: nn.Module, world: ParallelContext, example: Mapping[str, object]
) -> tuple[str, ...]:
    path = Path(os.environ.get("SM_MODULE_DIR", "."), world.job.partition_file)
    partition = PartitionFile.read(path)
    _check_degrees(partition, world, path)
    if has_weights(model):
        here = fingerprint.compute(model, example)
    else:
        with shapes_only(model, example) as without_values:
            here = fingerprint.compute(model, without_values)
    fingerprint.check(here, partition.fingerprint, path.name)
    if world.rank == 0:
        for caveat in fingerprint.caveats(here, partition.fingerprint, path.name):
            warnings.warn(caveat, stacklevel=2)
    return partition.starts


def _check_degrees(partition: PartitionFile, world: ParallelContext, path: Path) -> None:
    degrees = world.degrees
    for name, here in (
        ("partitions", degrees.pipeline),
        ("virtual_stages", degrees.virtual_stages),
    ):
        if (of_file := getattr(partition, name)) != here:
            raise ParallelError(
                f"{path.name} was made for {name}={of_file}, but this job has {name}={here}: run "
                f"`launcher plan cut` again, or set {name}={of_file} in the job"
            )
    if degrees.shard_degree < partition.shard_degree:
        raise ParallelError(
            f"{path.name} was made for shard_degree={partition.shard_degree}, but this job has "
            f"shard_degree={degrees.shard_degree}, with which a rank needs more memory: run "
            f"`launcher plan cut` again, or set shard_degree={partition.shard_degree} in the job"
        )
