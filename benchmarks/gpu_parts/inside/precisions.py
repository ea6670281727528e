"""The same training in float32 and in bfloat16: the loss in the end, and seconds of a step."""

from __future__ import annotations

import statistics
from dataclasses import replace

import torch
from torch.amp import GradScaler

from launcher import parallel
from launcher.trainers import DataParallelTrainer, Stopwatch, Task
from trainers_parts.inside.clock import seconds
from trainers_parts.inside.conversation import settings, tell
from trainers_parts.inside.gpt import Shape, loss

#: Different batches; they come again and again, so that there is something to learn.
_BATCHES = 4


def main() -> None:
    told = settings()
    world = parallel.init(global_batch=told["samples"])
    tell({name: _train(world, told, name) for name in (None, "bf16")})
    parallel.leave()


def _train(
    world: parallel.ParallelContext, told: dict[str, object], precision: str | None
) -> tuple[float, float]:
    """Return the mean loss over the last pass through the batches, and the median step."""
    shape = Shape(**told["shape"])
    task = Task(
        model=shape.model,
        train_data="not:read",
        loss=loss,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, 3e-4),
        batch_size=told["samples"],
        epochs=1,
    )
    own = replace(world, job=replace(world.job, precision=precision))
    trainer = DataParallelTrainer(shape.model(), task, own, Stopwatch(own))
    optimizer = task.optimizer(list(trainer.module.parameters()))
    batches = [shape.batch(number, told["samples"]) for number in range(_BATCHES)]
    losses: list[torch.Tensor] = []

    def step() -> None:
        optimizer.zero_grad()
        ids, labels = batches[len(losses) % _BATCHES]
        losses.append(trainer.step(len(losses), [((ids,), labels)], GradScaler(enabled=False)))
        optimizer.step()

    times = [seconds(step)[0] for _ in range(told["steps"])]
    last = torch.stack(losses[-_BATCHES:]).mean().item()
    return last, statistics.median(times[3:])


if __name__ == "__main__":
    main()
