"""The checkpoints of a training, in jobs that have a folder for them."""

from __future__ import annotations

import os
from pathlib import Path

from torch.optim import Optimizer

from launcher.parallel.checkpoints import Checkpoints, State
from launcher.parallel.checkpoints.train_state import Stateful
from launcher.parallel.context import ParallelContext
from launcher.shared import CHECKPOINT_VARIABLE
from launcher.trainers.base import Trainer
from launcher.trainers.task import Task


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
