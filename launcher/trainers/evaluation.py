"""Means over the validation data: equal on all ranks, with each sample counted once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from launcher.parallel import ParallelContext
from launcher.trainers.base import Trainer
from launcher.trainers.batches import ValidationBatches, take_first
from launcher.trainers.task import Task


class MetricAccumulator:
    """Weighted sums of one evaluation's metrics, kept by the rank that sees the outputs."""

    def __init__(self, task: Task, device: torch.device) -> None:
        self._task = task
        #: The sum of the weights, then that of the weighted losses and of each weighted metric.
        self._sums = torch.zeros(2 + len(task.metrics), dtype=torch.float64, device=device)

    def add(self, output: object, target: object, *, counted: int, of: int) -> None:
        """Add the first `counted` of a batch's `of` samples."""
        output, target = take_first(output, counted, of), take_first(target, counted, of)
        task = self._task
        weight = counted if task.valid is None else task.valid(target)
        if not counted or not weight:  # the mean of an empty batch is NaN
            return
        metrics = (task.scalar_metric(name, output, target) for name in task.metrics)
        one = torch.ones((), device=self._sums.device)
        values = (task.scalar_loss(output, target), *metrics)
        self._sums += torch.stack([one, *(one * value for value in values)]) * weight

    def means(self) -> dict[str, float]:
        """Return the means over all ranks, by name. All ranks must call it."""
        dist.all_reduce(self._sums)
        dist.broadcast(self._sums, src=0)  # bit-identical, since ranks decide by it when to stop
        weight, *sums = self._sums.tolist()
        return {
            name: value / weight if weight else float("nan")
            for name, value in zip(("loss", *self._task.metrics), sums, strict=True)
        }


def evaluate(
    trainer: Trainer, task: Task, batches: ValidationBatches, world: ParallelContext
) -> dict[str, float]:
    """Return the task's loss and metrics on its validation data; training is not affected.

    Buffers (running means) are those of the first replica, which are the ones that are saved.
    """
    metrics = MetricAccumulator(task, world.device)
    modes = {module: module.training for module in trainer.module.modules()}
    trainer.train(False)
    with torch.no_grad(), _buffers_of_first(trainer.module, world):
        for batch, counted in batches:
            trainer.evaluate(batch, counted, metrics)
    trainer.train(True)
    for module, training in modes.items():  # the task may keep some in eval mode
        module.training = training
    return metrics.means()


@contextmanager
def _buffers_of_first(module: nn.Module, world: ParallelContext) -> Iterator[None]:
    own = [(buffer, buffer.clone()) for buffer in module.buffers()]
    if world.degrees.data > 1:
        for buffer, _ in own:
            dist.broadcast(buffer, group=world.dp_group, group_src=0)
    try:
        yield
    finally:
        for buffer, before in own:
            buffer.copy_(before)


class EarlyStopping:
    """Early stopping: ends training after `patience` evaluations without a lower loss."""

    def __init__(self, patience: int | None) -> None:
        self._patience = patience
        self._best = float("inf")
        self._waited = 0

    def record(self, loss: float) -> None:
        """Record the loss of one more evaluation; NaN is not lower than any."""
        if loss < self._best:
            self._best, self._waited = loss, 0
        else:
            self._waited += 1

    @property
    def is_over(self) -> bool:
        """True if training must end."""
        return self._patience is not None and self._waited >= self._patience

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"best": self._best, "waited": self._waited}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of a checkpoint."""
        self._best, self._waited = state["best"], state["waited"]
