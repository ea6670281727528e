"""A model that is cut, and the way from its profile to steps of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from launcher import parallel
from launcher.parallel import Pipeline
from launcher.parallel.partitioning import Chain
from launcher.parallel.profiling import Sample, link_speed, profile
from trainers_parts.inside.clock import seconds

Batch = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A model and its data.

    make: always the same weights; the model's argument is called `input`. batch: inputs and
    targets of so many samples. samples: of a microbatch.
    """

    make: Callable[[], nn.Module]
    batch: Callable[[int], Batch]
    samples: int
    loss: Callable[[Any, Any], torch.Tensor]

    @property
    def example(self) -> dict[str, torch.Tensor]:
        return {"input": self.batch(self.samples)[0]}


def measured(subject: Subject, world: parallel.ParallelContext) -> Chain:
    """What rank 0 finds out about a model, and the link between the first two; on all ranks."""
    link = link_speed.measure_link(world.pp_group, world.device)
    told: list[Any] = [None]
    if world.rank == 0:
        target = subject.batch(subject.samples)[1]
        sample = Sample(arguments=subject.example, target=target, loss=subject.loss)
        told = [profile(subject.make(), sample, device=world.device)]
    dist.broadcast_object_list(told, src=0)
    return Chain(told[0].modules, told[0].joints, link)


def names(chain: Chain, places: Sequence[int]) -> list[str]:
    """The modules at which stages start."""
    return [chain.modules[place].name for place in places]


def piped(
    subject: Subject,
    world: parallel.ParallelContext,
    starts: Sequence[str],
    schedule: str | None = None,
) -> Pipeline:
    return Pipeline(
        subject.make(),
        world,
        starts=starts,
        example=subject.example,
        loss=subject.loss,
        schedule=schedule,
    )


def stepping(
    subject: Subject,
    world: parallel.ParallelContext,
    starts: Sequence[str],
    schedule: str | None = None,
) -> Callable[[], float]:
    """A call gives the seconds of a step of a model that is cut so, on all its ranks."""
    pipeline = piped(subject, world, starts, schedule)
    inputs, target = subject.batch(subject.samples * world.degrees.microbatches)

    def step() -> float:
        passed, _ = seconds(lambda: pipeline.step(inputs, target=target))
        return passed

    step()  # ranks connect when they first send
    return step
