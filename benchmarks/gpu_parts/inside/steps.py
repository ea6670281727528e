"""A step of the data parallel trainer, and the same step written by hand, by turns."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.distributed as dist
from torch import nn
from torch.amp import GradScaler
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from launcher import parallel
from launcher.trainers import DataParallelTrainer, Stopwatch, Task
from trainers_parts.inside.clock import everywhere
from trainers_parts.inside.conversation import settings, tell
from trainers_parts.inside.gpt import Shape, loss
from trainers_parts.inside.sides import Step, compare

Batch = Callable[[int], tuple[torch.Tensor, torch.Tensor]]


def main() -> None:
    told = settings()
    ranks = int(os.environ["WORLD_SIZE"])
    world = parallel.init(global_batch=told["samples"] * ranks)
    shape = Shape(**told["shape"])

    def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
        ids, labels = shape.batch(step * ranks + world.dp_rank, told["samples"])
        return ids.pin_memory(), labels.pin_memory()

    kind = told["kind"]
    one, other = shape.model(), shape.model()
    ours = _ours(one, shape, world, batch, is_sharded=kind == "fsdp2")
    plain = {"plain": _plain, "ddp": _ddp, "fsdp2": _fsdp2}[kind](other, world, batch)
    times = compare(ours, plain, pairs=told["pairs"], block=told["block"])
    tell({**times, "difference": _difference(one, other)})
    parallel.leave()


def _ours(
    model: nn.Module,
    shape: Shape,
    world: parallel.ParallelContext,
    batch: Batch,
    *,
    is_sharded: bool,
) -> Step:
    job = replace(world.job, precision="bf16", sharded=is_sharded)
    world = replace(world, job=job)
    task = Task(
        model=shape.model,
        train_data="not:read",
        loss=loss,
        optimizer=torch.optim.AdamW,
        batch_size=world.degrees.global_batch or 1,
        epochs=1,
    )
    trainer = DataParallelTrainer(model, task, world, Stopwatch(world))
    optimizer = task.optimizer(list(trainer.module.parameters()))
    scaler = GradScaler(enabled=False)

    def step(number: int) -> None:
        optimizer.zero_grad()
        ids, labels = batch(number)
        trainer.step(number, [((ids,), labels)], scaler)
        scaler.step(optimizer)

    return step


def _by_hand(
    model: nn.Module,
    device: torch.device,
    batch: Batch,
    casting: Callable[[], contextlib.AbstractContextManager[object]],
) -> Step:
    optimizer = torch.optim.AdamW(model.parameters())

    def step(number: int) -> None:
        optimizer.zero_grad()
        ids, labels = (each.to(device, non_blocking=True) for each in batch(number))
        with casting():
            found = loss(model(ids), labels)
        found.backward()
        optimizer.step()

    return step


def _half(device: torch.device) -> Callable[[], torch.autocast]:
    return lambda: torch.autocast(device.type, torch.bfloat16)


def _plain(model: nn.Module, world: parallel.ParallelContext, batch: Batch) -> Step:
    return _by_hand(model.to(world.device), world.device, batch, _half(world.device))


def _ddp(model: nn.Module, world: parallel.ParallelContext, batch: Batch) -> Step:
    replicas = DistributedDataParallel(model.to(world.device), device_ids=[world.device])
    return _by_hand(replicas, world.device, batch, _half(world.device))


def _fsdp2(model: nn.Sequential, world: parallel.ParallelContext, batch: Batch) -> Step:
    model.to(world.device)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    fully_shard(model, mesh=world.mesh["dp"], mp_policy=policy)
    return _by_hand(model, world.device, batch, contextlib.nullcontext)


def _difference(one: nn.Module, other: nn.Module) -> float:
    """Return by how much the parameters of both sides differ in the end, relatively."""

    def whole(parameter: torch.Tensor) -> torch.Tensor:
        found = parameter.full_tensor() if isinstance(parameter, DTensor) else parameter
        return found.detach().double()

    apart = squares = 0.0
    for own, by_hand in zip(one.parameters(), other.parameters(), strict=True):
        first, second = whole(own), whole(by_hand)
        apart += (first - second).square().sum().item()
        squares += second.square().sum().item()
    dist.barrier()
    return max(everywhere((apart / squares) ** 0.5))


if __name__ == "__main__":
    main()
