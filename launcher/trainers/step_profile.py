"""Measure a training step of a task on this GPU: `python -m launcher.trainers.step_profile`.

A `task_process`, whose answer is a StepProfile. Data is not part of the step: all read one batch.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from launcher import parallel
from launcher.errors import ParallelError
from launcher.parallel import scaler as make_scaler
from launcher.parallel import seed_from
from launcher.trainers.batches import TrainingBatches
from launcher.trainers.data_parallel_trainer import DataParallelTrainer
from launcher.trainers.stopwatch import Stopwatch
from launcher.trainers.task import make_task
from launcher.trainers.task_process import print_progress, serve

#: Steps before those that count: the optimizer's state is created, and kernels are chosen.
_WARM_UP_STEPS = 5
_FEWEST_STEPS = 10


@dataclass(frozen=True, kw_only=True)
class StepProfile:
    """A measured training step.

    accelerator: its name. batch_size: samples of a step. median, low, high: seconds of a step; low
    and high are quartiles. memory: the most bytes that torch's allocator held.
    """

    accelerator: str
    batch_size: int
    steps: int
    median: float
    low: float
    high: float
    memory: int


def main() -> int:
    """Answer the request on stdin and return the exit code."""
    return serve(lambda fields: json.dumps(asdict(answer(fields))))


def answer(request: Mapping[str, Any]) -> StepProfile:
    """Measure steps of a request's task. Raises ParallelError and the task's errors.

    request: task, hyperparameters, batch_size, precision, recomputed, seconds (to measure for).
    """
    task = replace(
        make_task(request["task"], request["hyperparameters"]), batch_size=request["batch_size"]
    )
    world = parallel.init(global_batch=task.batch_size, accumulation=1)
    if world.device.type != "cuda":
        raise ParallelError("this machine has no NVIDIA GPU that torch can use")
    job = replace(
        world.job, precision=request["precision"], recomputed=tuple(request["recomputed"])
    )
    world = replace(world, job=job)
    batch = TrainingBatches(task, world).example()
    print_progress(f"steps of {request['task']} on {torch.cuda.get_device_name(world.device)}")
    seed_from(task.seed)
    torch.manual_seed(task.seed)
    trainer = DataParallelTrainer(task.new_model(), task, world, Stopwatch(world))
    optimizer = task.optimizer(list(trainer.module.parameters()))
    scaler = make_scaler(world, enabled=job.precision == "fp16")

    def step(number: int) -> float:
        torch.cuda.synchronize()
        began = time.perf_counter()
        optimizer.zero_grad()
        trainer.step(number, [batch], scaler)
        if task.clip_norm is not None:
            scaler.unscale_(optimizer)
            trainer.clip(task.clip_norm)
        scaler.step(optimizer)
        scaler.update()
        torch.cuda.synchronize()
        return time.perf_counter() - began

    torch.cuda.reset_peak_memory_stats()
    found: list[float] = []
    until = time.monotonic() + request["seconds"]
    while len(found) < _WARM_UP_STEPS + _FEWEST_STEPS or time.monotonic() < until:
        found.append(step(len(found)))
    measured = found[_WARM_UP_STEPS:]
    low, _, high = statistics.quantiles(measured, n=4)
    parallel.leave()
    return StepProfile(
        accelerator=torch.cuda.get_device_name(world.device),
        batch_size=task.batch_size,
        steps=len(measured),
        median=statistics.median(measured),
        low=low,
        high=high,
        memory=torch.cuda.max_memory_allocated(),
    )


if __name__ == "__main__":
    sys.exit(main())
