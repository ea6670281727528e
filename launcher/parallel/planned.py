"""The cuts of a pipeline that names none: from the job, from a file, or by auto_partition."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from launcher.errors import ParallelError
from launcher.parallel import fingerprint
from launcher.parallel.context import ParallelContext
from launcher.parallel.cuts import Pins
from launcher.shared.partitions.partition_file import Partition


def starts(
    model: nn.Module,
    world: ParallelContext,
    example: Mapping[str, Any],
    *,
    loss: Callable[[Any, Any], torch.Tensor] | None = None,
    target: Any = None,
    states: int = 2,
) -> Sequence[str] | Pins:
    """Return the first module of each stage but the first, or the pins, as the job sets them.

    All ranks call it, with the same model on the CPU. example, loss, target: of one microbatch;
    states: tensors that the optimizer keeps per parameter. auto_partition uses these.
    Raises ParallelError for a file of another model, and where no cuts can be found.
    """
    job = world.job
    if job.stages:
        return Pins(stages=job.stages, default=job.default_stage)
    if job.partition_file:
        return _of_file(model, world, example)
    if job.auto_partition and world.degrees.stages > 1:
        # Imported here because a job with a file does not need the profiler.
        from launcher.parallel.partitioning.auto_partition import auto_partition

        return auto_partition(model, world, example, loss=loss, target=target, states=states).starts
    return job.starts


def _of_file(
    model: nn.Module, world: ParallelContext, example: Mapping[str, object]
) -> tuple[str, ...]:
    path = Path(os.environ.get("SM_MODULE_DIR", "."), world.job.partition_file)
    partition = Partition.read(path)
    _check_degrees(partition, world, path)
    here = fingerprint.taken(model, example)
    fingerprint.check(here, partition.fingerprint, path.name)
    if world.rank == 0:
        for doubt in fingerprint.doubts(here, partition.fingerprint, path.name):
            warnings.warn(doubt, stacklevel=2)
    return partition.starts


def _check_degrees(partition: Partition, world: ParallelContext, path: Path) -> None:
    degrees = world.degrees
    for name, here in (
        ("partitions", degrees.pipeline),
        ("virtual_stages", degrees.virtual_stages),
    ):
        if (of_file := getattr(partition, name)) != here:
            raise ParallelError(
                f"{path.name} is for {of_file} {name}, and this job has {here}: make it anew with "
                f"`launcher partition`, or let the job have {of_file}"
            )
