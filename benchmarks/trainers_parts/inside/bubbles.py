"""Pipelines of stages that sleep: how long a step takes, and how many microbatches live at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from launcher import parallel
from launcher.parallel import Pipeline
from table.turns import in_turns
from trainers_parts.inside.clock import everywhere, seconds
from trainers_parts.inside.conversation import settings, tell
from trainers_parts.inside.sleeping import Sleeper, Work


def main() -> None:
    told = settings()
    torch.set_num_threads(1)
    world = parallel.init(pipeline=told["stages"])
    steps = {
        json.dumps(case): _step(world, *case, forward=told["seconds"]) for case in told["cases"]
    }
    tell(in_turns(told["rounds"], steps))
    parallel.leave()


def _step(
    world: parallel.ParallelContext,
    schedule: str,
    microbatches: int,
    virtual: int,
    *,
    forward: float,
) -> Callable[[], dict[str, Any]]:
    """A call gives the seconds of a step, and the peak of each rank.

    forward: seconds that a stage sleeps for a microbatch; twice as long on its way back.
    """
    work = Work()
    degrees = replace(world.degrees, microbatches=microbatches, virtual_stages=virtual)
    pipeline = Pipeline(
        nn.Sequential(*(Sleeper(work) for _ in range(degrees.stages))),
        replace(world, degrees=degrees),
        starts=[str(stage) for stage in range(1, degrees.stages)],
        example={"input": torch.ones(1, 8)},
        loss=lambda output, target: output.mean(),
        schedule=schedule,
    )
    batch = torch.ones(microbatches, 8)

    def step(duration: float) -> dict[str, Any]:
        work.seconds, work.live, work.peak = duration, 0, 0
        passed, _ = seconds(lambda: pipeline.step(batch, target=batch))
        return {"seconds": passed, "peaks": everywhere(work.peak)}

    step(0.0)  # ranks connect when they first send
    return lambda: step(forward)


if __name__ == "__main__":
    main()
