"""Replicas whose work is to sleep: samples that all of them train with in a second."""

from __future__ import annotations

import torch
from torch import nn

from launcher import parallel
from launcher.parallel import clip, replicate
from trainers_parts.inside.clock import seconds
from trainers_parts.inside.conversation import settings, tell
from trainers_parts.inside.sleeping import Sleeper, Work

#: 2 MB of gradients, half of them behind the sleep of the backward pass and half before it.
_WIDTH = 512


def main() -> None:
    told = settings()
    torch.set_num_threads(1)
    world = parallel.init()
    work = Work()
    model = nn.Sequential(nn.Linear(_WIDTH, _WIDTH), Sleeper(work), nn.Linear(_WIDTH, _WIDTH))
    replicas = replicate(model, world)
    optimizer = torch.optim.AdamW(replicas.parameters())
    batch = torch.ones(told["samples"], _WIDTH)

    def step() -> None:
        optimizer.zero_grad()
        replicas(batch).square().mean().backward()
        clip(replicas.parameters(), 1.0, world)
        optimizer.step()

    seconds(step, times=2)  # ranks connect, and the reducer sets itself up
    work.seconds = told["seconds"]
    passed, _ = seconds(step, times=told["steps"])
    tell(world.degrees.world * told["samples"] / passed)
    parallel.leave()


if __name__ == "__main__":
    main()
