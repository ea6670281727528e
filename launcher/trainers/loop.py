"""The training loop, one for all trainers, with its optimizers, checkpoints and log lines."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from launcher import parallel
from launcher.errors import ParallelError
from launcher.parallel import ParallelContext, seed_from, tied_names
from launcher.parallel import scaler as make_scaler
from launcher.parallel.checkpoints import Checkpoints, State, Stateful
from launcher.parallel.pretrained import (
    PretrainedWeights,
    check_pretrained,
    without_weights,
    write_pretrained,
)
from launcher.runtime import emit
from launcher.shared import CHECKPOINT_VARIABLE
from launcher.trainers.base import Trainer
from launcher.trainers.batches import TrainingBatches, ValidationBatches
from launcher.trainers.data_parallel_trainer import DataParallelTrainer
from launcher.trainers.evaluation import EarlyStopping, evaluate
from launcher.trainers.footprint import measure
from launcher.trainers.oom import oom_advice
from launcher.trainers.pipeline_trainer import PipelineTrainer
from launcher.trainers.stopwatch import Stopwatch
from launcher.trainers.task import Task


def train(task: Task, model_folder: Path) -> None:
    """Train a task on all ranks as the job specifies and write the model. Raises ParallelError."""
    world = parallel.init(global_batch=task.batch_size)
    data = TrainingBatches(task, world)
    with oom_advice(world, lambda: measure(task, data.example())):
        state, tied = _run(task, world, data)
        _write(task, state, tied, model_folder)
    parallel.leave()


def _model(task: Task) -> nn.Module:
    """Create the model; without weights, if they are read from a folder.

    One in eval mode, as `from_pretrained` of transformers returns it, is set to train mode. Modules
    in eval mode within one in train mode stay so.
    """
    seed_from(task.seed)
    torch.manual_seed(task.seed)  # determines the initial weights
    with nullcontext() if task.weights is None else without_weights():
        model = task.new_model()
    return model if model.training else model.train()


def _run(
    task: Task, world: ParallelContext, data: TrainingBatches
) -> tuple[dict[str, Any], Mapping[str, str]]:
    """Run all epochs, or fewer with early stopping.

    Returns the model's state, on rank 0, and the later names of its tied parameters.
    """
    validation = ValidationBatches(task, world) if task.validation_data else None
    watch = Stopwatch(world)
    model = _model(task)
    tied = tied_names(model)
    if task.weights is not None:  # as it is written in the end
        check_pretrained(model.state_dict(), task.weights)
    trainer = _trainer(task, world, data, model, watch)
    optimizer = make_optimizer(task.optimizer, list(trainer.module.parameters()))
    scheduler = _scheduler(task, optimizer)
    scaler = make_scaler(world, enabled=world.job.precision == "fp16")
    early_stopping = EarlyStopping(task.patience)
    checkpoints = CheckpointManager(
        world,
        task,
        trainer,
        optimizer,
        data.loader,
        scheduler=scheduler,
        scaler=scaler,
        patience=early_stopping,
    )
    logger = StepLogger(watch, task, steps=task.epochs * data.steps)
    step = checkpoints.resume()
    data.check_resumed(step)
    for epoch in range(step // data.steps, task.epochs):
        if early_stopping.is_over:
            break
        for batches in logger.steps(data.epoch()):
            optimizer.zero_grad()
            loss = trainer.step(step, batches, scaler)
            if task.clip_norm is not None:
                scaler.unscale_(optimizer)
                trainer.clip(task.clip_norm)
            with watch.computing():
                scaler.step(optimizer)
            scaler.update()
            if scheduler is not None:
                scheduler.step()
            step += 1
            logger.log_step(epoch=epoch, step=step, loss=loss)
            if step % data.steps:  # otherwise saved after the evaluation
                checkpoints.save_if_due(step)
        if validation is not None:
            means = evaluate(trainer, task, validation, world)
            early_stopping.record(means["loss"])
            logger.log_evaluation(
                epoch=epoch, step=step, means=means, is_last=early_stopping.is_over
            )
        checkpoints.save_if_due(step, force=True)
    checkpoints.close()
    return trainer.state(), tied


def _scheduler(task: Task, optimizer: Optimizer) -> LRScheduler | None:
    found = task.scheduler(optimizer) if task.scheduler else None
    if isinstance(found, ReduceLROnPlateau):
        raise ParallelError(
            "the Task's scheduler is a ReduceLROnPlateau, which follows a metric, but schedulers "
            "of tasks step after each optimizer step: use one that depends on the step alone"
        )
    return found


def _trainer(
    task: Task, world: ParallelContext, data: TrainingBatches, model: nn.Module, watch: Stopwatch
) -> Trainer:
    """Create the trainer: a pipeline if there are several stages, microbatches, or shards."""
    degrees = world.degrees
    if degrees.stages * degrees.microbatches * degrees.shard_degree > 1:
        return PipelineTrainer(model, task, world, data.example(), watch)
    if task.weights is not None:
        PretrainedWeights(task.weights).load(model, model, world.device)
    return DataParallelTrainer(model, task, world, watch)


def _write(task: Task, state: dict[str, Any], tied: Mapping[str, str], folder: Path) -> None:
    if state and task.weights is not None:
        write_pretrained(state, folder, like=task.weights, tied=tied)
    elif state:
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(state, folder / "model.pt")


def make_optimizer(
    make: Callable[[list[nn.Parameter]], torch.optim.Optimizer], parameters: Sequence[nn.Parameter]
) -> torch.optim.Optimizer:
    """Return the optimizer that `make` creates for some parameters.

    Without any, as in a stage that only applies a function, torch's optimizers raise ValueError:
    then it is created for a placeholder, which it is relieved of.
    """
    if parameters:
        return make(list(parameters))
    optimizer = make([nn.Parameter(torch.empty(0))])
    for group in optimizer.param_groups:
        group["params"].clear()
    return optimizer


class CheckpointManager:
    """Saves and resumes a training. shared: state that is equal on all ranks; None is skipped."""

    def __init__(
        self,
        world: ParallelContext,
        task: Task,
        trainer: Trainer,
        optimizer: Optimizer,
        loader: Stateful,
        **shared: Stateful | None,
    ) -> None:
        folder = os.environ.get(CHECKPOINT_VARIABLE)
        self._checkpoints = Checkpoints(Path(folder), world) if folder else None
        self._every = task.checkpoint_steps
        self._state = State(
            model=trainer.saved,
            optimizers=[optimizer],
            shared={name: each for name, each in shared.items() if each is not None},
            loaders={"train": loader},
        )

    def resume(self) -> int:
        """Restore the newest checkpoint; return the steps it had completed, 0 if there is none."""
        return (self._checkpoints and self._checkpoints.load(self._state)) or 0

    def save_if_due(self, step: int, *, force: bool = False) -> None:
        """Save after `step` completed steps if a checkpoint is due. force: save in any case."""
        if self._checkpoints and (force or (self._every and step % self._every == 0)):
            self._checkpoints.save(step, self._state)

    def close(self) -> None:
        """Wait until all checkpoints are on the disk."""
        if self._checkpoints:
            self._checkpoints.close()


#: Seconds between two lines of a rank. A line reads the step's loss, which waits for the GPU.
_EVERY = 1.0
#: Seconds between the first lines, and their number: a job of seconds has measured steps, too.
_EVERY_AT_FIRST, _FIRST_LINES = 0.1, 10

_Item = TypeVar("_Item")


class StepLogger:
    """The log of one rank. steps: the number in the whole training. log: writes an event line."""

    def __init__(
        self, watch: Stopwatch, task: Task, *, steps: int, log: Callable[..., None] = emit
    ) -> None:
        self._watch = watch
        self._task = task
        self._steps = steps
        self._emit = log
        self._begin_interval()
        self._due = 0.0
        self._lines = 0
        self._began = 0.0

    def _begin_interval(self) -> None:
        self._interval, self._waited, self._count = time.perf_counter(), 0.0, 0

    def steps(self, batches: Iterable[_Item]) -> Iterator[_Item]:
        """Yield the same batches and record how long each was waited for."""
        reading = iter(batches)
        self._begin_interval()
        while True:
            start = time.perf_counter()
            try:
                batch = next(reading)
            except StopIteration:
                return
            got = time.perf_counter()
            self._waited += got - start
            if got >= self._due:
                self._watch.start()
            self._began = self._watch.now()
            yield batch

    def log_step(self, *, epoch: int, step: int, loss: torch.Tensor) -> None:
        """Log a completed step, if one is due. step: the number of steps completed so far."""
        self._count += 1
        if not self._watch.is_on:
            return
        ended = self._watch.now()
        took = ended - self._began
        self._watch.stop()
        self._emit(
            "train_step",
            epoch=epoch,
            step=step,
            steps=self._steps,
            loss=round(loss.item(), 6),
            data_wait=round(self._waited / self._count, 6),
            **self._watch.shares(took),
            samples_per_second=round(
                self._task.batch_size * self._count / (ended - self._interval), 3
            ),
        )
        self._begin_interval()
        self._lines += 1
        self._due = ended + (_EVERY if self._lines > _FIRST_LINES else _EVERY_AT_FIRST)

    def log_evaluation(
        self, *, epoch: int, step: int, means: Mapping[str, float], is_last: bool
    ) -> None:
        """Log an evaluation of all ranks, on rank 0. is_last: early stopping ends the training."""
        if self._watch.world.rank == 0:
            named = {f"validation_{name}": round(value, 6) for name, value in means.items()}
            self._emit("evaluation", epoch=epoch, step=step, **named)
            if is_last:
                self._emit("early_stop", epoch=epoch, step=step, patience=self._task.patience)
