"""The training loop, one for all trainers."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from launcher import parallel
from launcher.errors import ParallelError
from launcher.parallel.context import ParallelContext
from launcher.parallel.precision import scaler as make_scaler
from launcher.parallel.pretrained import PretrainedWeights, without_weights, write_pretrained
from launcher.parallel.pretrained.pretrained_folder import check_pretrained
from launcher.parallel.randomness import seed_from
from launcher.parallel.ties import tied_names
from launcher.trainers.base import Trainer
from launcher.trainers.batches import TrainingBatches, ValidationBatches
from launcher.trainers.checkpoint_manager import CheckpointManager
from launcher.trainers.data_parallel_trainer import DataParallelTrainer
from launcher.trainers.evaluation import EarlyStopping, evaluate
from launcher.trainers.footprint import measure
from launcher.trainers.oom import oom_advice
from launcher.trainers.pipeline_trainer import PipelineTrainer
from launcher.trainers.stage_optimizer import make_optimizer
from launcher.trainers.step_logger import StepLogger
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
        model = task.model()
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
