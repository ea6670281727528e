"""A pipeline of two stages on two GPUs: its step and peak memory, predicted and measured."""

from __future__ import annotations

import statistics
from typing import Any

import torch
import torch.distributed as dist

from gpu_parts.inside.partitioned import PRECISION, decided, profiled, subject_of
from launcher import parallel
from launcher.parallel import Pipeline
from launcher.parallel.profiling import link_speed
from trainers_parts.inside.clock import everywhere, seconds
from trainers_parts.inside.conversation import settings, tell


def main() -> None:
    told = settings()
    count = told["microbatches"]
    world = parallel.init(pipeline=2, microbatches=count)
    subject = subject_of(told)
    link = link_speed.measure_link(world.pp_group, world.device)
    made: list[Any] = [None]
    if world.rank == 0:
        costs = profiled(subject, world.device)
        made = [decided(costs, link, partitions=2, microbatches=count)]
    dist.broadcast_object_list(made, src=0)
    file = made[0]
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    pipeline = Pipeline(
        subject.make(),
        world,
        starts=file.starts,
        example=subject.example,
        loss=subject.loss,
        precision=PRECISION,
    )
    optimizer = torch.optim.AdamW(pipeline.parameters())
    inputs, target = (x.to(world.device) for x in subject.batch(subject.samples * count))
    times = []
    for number in range(told["rounds"] + 2):
        if number == 2:  # gradients and optimizer state exist
            torch.cuda.reset_peak_memory_stats()
        passed, _ = seconds(lambda: pipeline.step(inputs, target=target))
        times.append(passed)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    tell(
        {
            "predicted_seconds": file.step,
            "seconds": statistics.median(times[2:]),
            "predicted_bytes": [stage.memory for stage in file.stages],
            "bytes": everywhere(torch.cuda.max_memory_allocated() - before),
        }
    )
    parallel.leave()


if __name__ == "__main__":
    main()
