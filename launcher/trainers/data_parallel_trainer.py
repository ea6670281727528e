"""Data parallel training: each rank has the whole model and its own batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.amp import GradScaler

from launcher.parallel import (
    ParallelContext,
    accumulating,
    autocasting,
    clip,
    recompute,
    replicate,
    seed_from,
    shard,
    zero_loss,
)
from launcher.parallel.checkpoints import own_name
from launcher.trainers.base import whole_state
from launcher.trainers.batches import call, move_to_device, size_of
from launcher.trainers.evaluation import MetricAccumulator
from launcher.trainers.stopwatch import Stopwatch
from launcher.trainers.task import Batch, Task


class DataParallelTrainer:
    """The trainer of jobs without a pipeline."""

    def __init__(
        self, model: nn.Module, task: Task, world: ParallelContext, watch: Stopwatch
    ) -> None:
        job = world.job
        self.module = self.saved = model
        self._task = task
        self._world = world
        self._watch = watch
        watch.attach(model)
        recompute(model, job.recomputed)
        if job.sharded:
            self._model = shard(model, world, precision=job.precision)
            self._autocasting = autocasting(None, world.device)
        elif world.degrees.data == 1:  # DDP would copy each gradient for nobody
            self._model = model.to(world.device)
            self._autocasting = autocasting(job.precision, world.device)
        else:
            # A model may leave parameters unused, and may change which ones from step to step.
            self._model = replicate(
                model, world, compression=job.compression, find_unused_parameters=True
            )
            self._autocasting = autocasting(job.precision, world.device)

    def step(self, number: int, batches: Sequence[Batch], scaler: GradScaler) -> torch.Tensor:
        """Compute the gradients of a step; return the mean loss of this replica's batches."""
        batches = [move_to_device(batch, self._world.device) for batch in batches]
        weights = self._weights([target for _, target in batches])
        losses = []
        for part, (arguments, target) in enumerate(batches):
            seed_from(self._task.seed, number, self._world.dp_rank, part)
            with accumulating(self._model, is_last=part == len(batches) - 1):
                with self._autocasting():
                    output = call(self._model, arguments)
                    loss = (
                        self._task.scalar_loss(output, target)
                        if weights[part]
                        else zero_loss(output)
                    )
                self._watch.watch_backward(loss)
                scaler.scale(loss * weights[part]).backward()
            losses.append(loss.detach())
        # With numbers of Python's: a tensor of the weights would make the GPU's queue run empty.
        whole = torch.stack([loss * weight for loss, weight in zip(losses, weights, strict=True)])
        return whole.sum() / max(sum(weights), 1e-12)

    def _weights(self, targets: Sequence[object]) -> list[float]:
        """Weigh each batch's loss so that the mean over replicas is the mean over all elements."""
        if self._task.valid is None:
            return [1 / len(targets)] * len(targets)
        counts = [float(self._task.valid(target)) for target in targets]
        total = torch.tensor(sum(counts), dtype=torch.float64, device=self._world.device)
        dist.all_reduce(total, group=self._world.dp_group)
        return [count * self._world.degrees.data / max(total.item(), 1e-12) for count in counts]

    def clip(self, max_norm: float) -> None:
        """Scale the gradients down to a norm."""
        clip(self.module.parameters(), max_norm, self._world)

    def train(self, mode: bool) -> None:
        """Set train or eval mode."""
        self._model.train(mode)

    def evaluate(self, batch: Batch, counted: int, metrics: MetricAccumulator) -> None:
        """Add the metrics of a batch's first `counted` samples."""
        arguments, target = move_to_device(batch, self._world.device)
        with self._autocasting():
            output = call(self.module, arguments)
            metrics.add(output, target, counted=counted, of=size_of(arguments))

    def state(self) -> dict[str, Any]:
        """Return the whole model's state_dict on rank 0, {} elsewhere."""
        found = whole_state(self.module, keep=self._world.rank == 0)
        return {own_name(self.module, name): value for name, value in found.items()}
