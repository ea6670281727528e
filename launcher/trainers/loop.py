"""The training loop, one for all trainers."""

from __future__ import annotations

from pathlib import Path

import torch

from launcher import parallel
from launcher.contract import ParallelPart
from launcher.parallel.precision import scaler as make_scaler
from launcher.parallel.randomness import seed_at
from launcher.parallel.world import World
from launcher.trainers.batches import TrainingBatches, ValidationBatches
from launcher.trainers.evaluation import Patience, evaluate
from launcher.trainers.footprint import measure
from launcher.trainers.journal import Journal
from launcher.trainers.replicas import Replicas
from launcher.trainers.shortage import explained
from launcher.trainers.stopwatch import Stopwatch
from launcher.trainers.task import Task
from launcher.trainers.trainer import Trainer


def train(task: Task, part: ParallelPart, model_folder: Path) -> None:
    """Train a task on all ranks as the job says, and write the model. Raises ParallelError."""
    world = _join(task, part)
    data = TrainingBatches(task, world)
    with explained(part, world.degrees, lambda: measure(task, data.example())):
        _learn(task, part, world, data, model_folder)
    parallel.leave()


def _learn(
    task: Task, part: ParallelPart, world: World, data: TrainingBatches, model_folder: Path
) -> None:
    watch = Stopwatch(world.device)
    validation = ValidationBatches(task, world) if task.validation_data else None
    trainer = _trainer(task, part, world, data, watch)
    optimizer = task.optimizer(list(trainer.module.parameters()))
    scheduler = task.scheduler(optimizer) if task.scheduler else None
    scaler = make_scaler(world, enabled=part.precision == "fp16")
    journal = Journal(
        watch, rank=world.rank, batch_size=task.batch_size, steps=task.epochs * data.steps
    )
    patience = Patience(task.patience)
    step = 0
    for epoch in range(task.epochs):
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
        if validation is not None:
            means = evaluate(trainer, task, validation, world)
            journal.evaluated(epoch=epoch, step=step, means=means)
            if patience.is_over(means["loss"]):
                journal.ended_early(epoch=epoch, step=step, patience=task.patience)
                break
    _write(trainer.state(), model_folder)


def _join(task: Task, part: ParallelPart) -> World:
    return parallel.init(
        pipeline=part.partitions,
        placement=part.placement,
        global_batch=task.batch_size,
        accumulation=part.accumulation,
        microbatches=part.microbatches,
        virtual_stages=part.virtual_stages,
    )


def _trainer(
    task: Task, part: ParallelPart, world: World, data: TrainingBatches, watch: Stopwatch
) -> Trainer:
    """Pipelines have microbatches, also those of one stage."""
    seed_at(task.seed)
    model = task.model()
    if part.partitions * part.microbatches > 1:
        from launcher.trainers.stages import Stages  # torch's pipelines take seconds to import

        return Stages(model, task, part, world, data.example(), watch)
    return Replicas(model, task, part, world, watch)


def _write(state: dict[str, torch.Tensor], folder: Path) -> None:
    if state:
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(state, folder / "model.pt")
