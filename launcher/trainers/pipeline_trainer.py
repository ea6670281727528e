"""Pipeline training: each rank has stages of the model; replicas have their own batches."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.amp import GradScaler

from launcher.parallel import ParallelContext, Pipeline, recompute, resolve_starts
from launcher.trainers.base import whole_state
from launcher.trainers.batches import by_name, call, move_to_device, pad, size_of, take_first
from launcher.trainers.evaluation import MetricAccumulator
from launcher.trainers.footprint import states_per_parameter
from launcher.trainers.stopwatch import Stopwatch
from launcher.trainers.task import Batch, Task


class PipelineTrainer:
    """The trainer of jobs with a pipeline. example: a batch."""

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        world: ParallelContext,
        example: Batch,
        watch: Stopwatch,
    ) -> None:
        self._task = task
        self._world = world
        self._watch = watch
        self._counting: _Counting | None = None
        size = size_of(example[0])
        one, target = take_first(example, size // world.degrees.microbatches, size)
        self._names = list(model.state_dict())
        recompute(model, world.job.recomputed)
        named = by_name(model, one)
        starts = resolve_starts(
            model,
            world,
            named,
            loss=task.scalar_loss,
            target=target,
            states=functools.partial(states_per_parameter, task),
            optimizer=task.optimizer,
        )
        self._pipeline = self.saved = Pipeline(
            model,
            world,
            starts=starts,
            example=named,
            loss=self._loss,
            valid=self._valid if task.valid else None,
            weights=task.weights,
            seed=task.seed,
        )
        self.module = self._pipeline.module
        for stage in self._pipeline.stages:
            watch.attach(stage)

    def step(self, number: int, batches: Sequence[Batch], scaler: GradScaler) -> torch.Tensor:
        """Compute the gradients of a step; return the mean loss of this replica's batches."""
        losses = []
        for part, batch in enumerate(batches):
            arguments, target = move_to_device(batch, self._world.device)
            is_last = part == len(batches) - 1
            options = {"target": target, "is_last": is_last, "scaler": scaler}
            losses.append(call(self._pipeline.step, arguments, **options))
        return torch.stack(losses).mean()

    def clip(self, max_norm: float) -> None:
        """Scale the gradients of the whole model down to a norm."""
        self._pipeline.clip(max_norm)

    def train(self, mode: bool) -> None:
        """Set train or eval mode."""
        self._pipeline.train(mode)

    def evaluate(self, batch: Batch, counted: int, metrics: MetricAccumulator) -> None:
        """Add the metrics of a batch's first `counted` samples."""
        size = self._world.degrees.batch or 0
        arguments, target = move_to_device(pad(batch, size), self._world.device)
        self._counting = _Counting(metrics, counted, size // self._world.degrees.microbatches)
        call(self._pipeline.evaluate, arguments, target=target)
        self._counting = None

    def _loss(self, output: object, target: object) -> torch.Tensor:
        """Compute the loss of a microbatch; in an evaluation, also add its metrics."""
        if self._counting is not None:
            self._counting.add(output, target)
        loss = self._task.scalar_loss(output, target)
        self._watch.watch_backward(loss)
        return loss

    def _valid(self, target: object) -> torch.Tensor | int:
        assert self._task.valid is not None  # used only if the task has it
        count = self._task.valid(target)
        if self._counting is not None and not count:
            self._counting.skip()  # the pipeline computes no loss for it
        return count

    def state(self) -> dict[str, Any]:
        """Gather the whole model's state_dict on rank 0; return {} elsewhere."""
        own = whole_state(self.module, keep=not self._world.dp_rank)
        if self._world.dp_rank:
            return {}
        stages: list[Any] | None = None
        if self._world.rank == 0:
            stages = [None] * self._world.degrees.pipeline
        dist.gather_object(own, stages, group=self._world.pp_group, group_dst=0)
        first = {name: self._pipeline.tied.get(name, name) for name in self._names}
        together = {
            first.get(name, name): value for stage in stages or () for name, value in stage.items()
        }
        return {name: together[first[name]] for name in self._names if first[name] in together}


class _Counting:
    """Counts the samples of one batch, whose microbatches arrive in order."""

    def __init__(self, metrics: MetricAccumulator, counted: int, size: int) -> None:
        self._metrics = metrics
        self._left = counted
        self._size = size

    def add(self, output: object, target: object) -> None:
        self._metrics.add(output, target, counted=self.skip(), of=self._size)

    def skip(self) -> int:
        """Skip a microbatch; return how many of its samples count."""
        counted = min(self._left, self._size)
        self._left -= counted
        return counted
