"""Data parallel by launcher.parallel, and by torch alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grad_norm_

from launcher import parallel
from launcher.parallel import accumulating, clip, replicate
from trainers_parts.inside.conversation import settings, tell
from trainers_parts.inside.gpt import Shape, loss
from trainers_parts.inside.sides import Step, compare, difference

#: Batches of an optimizer step.
_BATCHES = 2
Batches = Callable[[int], list[tuple[torch.Tensor, torch.Tensor]]]


def main() -> None:
    told = settings()
    torch.set_num_threads(1)
    world = parallel.init()
    shape = Shape(**told["shape"])
    half = torch.autocast(world.device.type, torch.bfloat16, enabled=told["is_half"])

    def batches(step: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """The same for both sides, and with the same random numbers to come."""
        torch.manual_seed(step)
        first = (step * world.degrees.data + world.dp_rank) * _BATCHES
        read = (shape.batch(first + each, told["samples"]) for each in range(_BATCHES))
        return [(ids.to(world.device), labels.to(world.device)) for ids, labels in read]

    one, other = shape.model(), shape.model()
    ours, plain = _ours(one, world, batches, half), _plain(other, world.device, batches, half)
    times = compare(ours, plain, pairs=told["pairs"], block=told["block"])
    tell({**times, "difference": difference(one.parameters(), other.parameters())})
    parallel.leave()


def _ours(
    model: nn.Module, world: parallel.ParallelContext, batches: Batches, half: torch.autocast
) -> Step:
    replicas = replicate(model, world)
    optimizer = torch.optim.AdamW(replicas.parameters())

    def step(number: int) -> None:
        optimizer.zero_grad()
        read = batches(number)
        for at, (ids, labels) in enumerate(read):
            with accumulating(replicas, is_last=at == len(read) - 1), half:
                (loss(replicas(ids), labels) / len(read)).backward()
        clip(replicas.parameters(), 1.0, world)
        optimizer.step()

    return step


def _plain(model: nn.Module, device: torch.device, batches: Batches, half: torch.autocast) -> Step:
    on_gpu = device.type == "cuda"
    replicas = DistributedDataParallel(model.to(device), device_ids=[device] if on_gpu else None)
    optimizer = torch.optim.AdamW(replicas.parameters())

    def step(number: int) -> None:
        optimizer.zero_grad()
        read = batches(number)
        for at, (ids, labels) in enumerate(read):
            is_last = at == len(read) - 1
            with contextlib.nullcontext() if is_last else replicas.no_sync(), half:
                (loss(replicas(ids), labels) / len(read)).backward()
        clip_grad_norm_(replicas.parameters(), 1.0)
        optimizer.step()

    return step


if __name__ == "__main__":
    main()
