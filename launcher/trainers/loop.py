"""The training loop, one for all trainers."""

from __future__ import annotations

from pathlib import Path

import torch

from launcher import parallel
from launcher.parallel.context import ParallelContext
from launcher.parallel.precision import scaler as make_scaler
from launcher.parallel.randomness import seed_at
from launcher.trainers.base import Trainer
from launcher.trainers.batches import TrainingBatches, ValidationBatches
from launcher.trainers.checkpoint_manager import CheckpointManager
from launcher.trainers.data_parallel_trainer import DataParallelTrainer
from launcher.trainers.evaluation import EarlyStopping, evaluate
from launcher.trainers.footprint import measure
from launcher.trainers.oom import explained
from launcher.trainers.pipeline_trainer import PipelineTrainer
from launcher.trainers.step_logger import StepLogger
from launcher.trainers.stopwatch import Stopwatch
from launcher.trainers.task import Task


def train(task: Task, model_folder: Path) -> None:
    """Train a task on all ranks as the job specifies and write the model. Raises ParallelError."""
    world = parallel.init(global_batch=task.batch_size)
    data = TrainingBatches(task, world)
    with explained(world, lambda: measure(task, data.example())):
        _write(_learned(task, world, data), model_folder)
    parallel.leave()


def _learned(task: Task, world: ParallelContext, data: TrainingBatches) -> dict[str, torch.Tensor]:
    """Run all epochs, or fewer with early stopping; return the model's state, on rank 0."""
    validation = ValidationBatches(task, world) if task.validation_data else None
    watch = Stopwatch(world)
    trainer = _trainer(task, world, data, watch)
    optimizer = task.optimizer(list(trainer.module.parameters()))
    scheduler = task.scheduler(optimizer) if task.scheduler else None
    scaler = make_scaler(world, enabled=world.job.precision == "fp16")
    patience = EarlyStopping(task.patience)
    keeping = CheckpointManager(
        world,
        task,
        trainer,
        optimizer,
        data.loader,
        scheduler=scheduler,
        scaler=scaler,
        patience=patience,
    )
    journal = StepLogger(watch, task, steps=task.epochs * data.steps)
    step = keeping.resume()
    for epoch in range(step // data.steps, task.epochs):
        if patience.is_over:
            break
        for batches in journal.steps(data.epoch()):
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
            journal.told(epoch=epoch, step=step, loss=loss)
            if step % data.steps:  # otherwise saved after the evaluation
                keeping.keep(step)
        if validation is not None:
            means = evaluate(trainer, task, validation, world)
            patience.note(means["loss"])
            journal.evaluated(epoch=epoch, step=step, means=means, is_last=patience.is_over)
        keeping.keep(step, is_due=True)
    keeping.close()
    return trainer.state()


def _trainer(
    task: Task, world: ParallelContext, data: TrainingBatches, watch: Stopwatch
) -> Trainer:
    """Create the trainer: a pipeline if there are several stages or microbatches."""
    seed_at(task.seed)
    torch.manual_seed(task.seed)  # determines the initial weights
    model = task.model()
    if world.degrees.stages * world.degrees.microbatches > 1:
        return PipelineTrainer(model, task, world, data.example(), watch)
    return DataParallelTrainer(model, task, world, watch)


def _write(state: dict[str, torch.Tensor], folder: Path) -> None:
    if state:
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(state, folder / "model.pt")
