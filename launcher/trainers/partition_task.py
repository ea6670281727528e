"""Find the best cuts of a task's model: `python -m launcher.trainers.partition_task`.

A `task_process`, whose answer is a partition.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from launcher.data import DataLoader
from launcher.errors import ParallelError
from launcher.parallel import fingerprint, recompute
from launcher.parallel.partitioning import PartitionQuestion, decide
from launcher.parallel.profiling import (
    ProfileKind,
    Sample,
    link_speed,
    profile,
    repeated,
    unmaterialised,
)
from launcher.shared import Link, ParallelDims, PartitionFile
from launcher.trainers.batches import by_name
from launcher.trainers.footprint import states_per_parameter
from launcher.trainers.task import Batch, Task, make_task
from launcher.trainers.task_process import print_progress, serve


@dataclass(frozen=True, kw_only=True)
class PartitionJob(PartitionQuestion):
    """One partitioning request, with the fields of `task_process` that are not read here.

    replicas: the number of data-parallel replicas that share the task's batch.
    link: the link between stages; None to measure it.
    """

    source_dir: str
    output: str | int
    lifeline: int | None = None
    hyperparameters: Mapping[str, Any]
    profile: str = "measured"
    link: Mapping[str, Any] | None = None


def main() -> int:
    """Answer the request on stdin and return the exit code."""
    return serve(lambda fields: answer(PartitionJob(**fields)).to_json())


def answer(request: PartitionJob) -> PartitionFile:
    """Return the best partition of a task's model. Raises ParallelError and the task's errors."""
    task = make_task(request.task, request.hyperparameters)
    kind = ProfileKind(request.profile)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model, sample = _build(task, request, kind)
    here = fingerprint.compute(model, sample.arguments)
    print_progress(
        f"{request.profile} profile of {sum(p.numel() for p in model.parameters()):,} parameters"
    )
    found = repeated(
        lambda: profile(
            *_build(task, request, kind),
            device=device,
            kind=kind,
            precision=request.precision,
            states=states_per_parameter(task),
            optimizer=task.optimizer,
        )
    )
    print_progress(f"{len(found[0].modules)} modules at which a stage can begin")
    return decide(found, here, _link(request), request)


def _build(task: Task, request: PartitionJob, kind: ProfileKind) -> tuple[nn.Module, Sample]:
    """Build a task's model and a microbatch for it."""
    arguments, target = _microbatch(task, request)

    def make() -> nn.Module:
        torch.manual_seed(task.seed)
        model = task.new_model()
        recompute(model, request.recomputed)
        return model

    # Those by position are numbered until there is a model to name them.
    numbered = {str(n): each for n, each in enumerate(arguments)}
    sample = Sample(
        arguments=arguments if isinstance(arguments, dict) else numbered,
        target=target,
        loss=task.scalar_loss,
    )
    if kind is ProfileKind.MEASURED:
        model = make()
    else:
        model, sample = unmaterialised(make, sample)
    if isinstance(arguments, dict):
        return model, sample
    return model, replace(sample, arguments=by_name(model, tuple(sample.arguments.values())))


def _microbatch(task: Task, request: PartitionJob) -> Batch:
    degrees = ParallelDims(
        world=request.partitions * request.replicas,
        pipeline=request.partitions,
        virtual_stages=request.virtual_stages,
        microbatches=request.microbatches,
        global_batch=task.batch_size,
    )
    size = degrees.microbatch
    loader = DataLoader(task.train_data, size, shuffle=True, seed=task.seed, drop_last=True)
    loader.set_epoch(0)  # each profile takes the same microbatch
    for batch in loader:
        return task.split(batch)
    raise ParallelError(f"{task.train_data} has fewer samples than a microbatch ({size})")


def _link(request: PartitionJob) -> Link:
    if request.link is not None:
        return Link(**request.link)
    if request.partitions == 1:
        return Link()
    print_progress("the link between two processes of this machine")
    return link_speed.measure_local_link()


if __name__ == "__main__":
    sys.exit(main())
