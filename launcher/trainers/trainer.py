"""What the loop asks of a trainer; `replicas` and `stages` are the two there are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import torch
from torch import nn
from torch.amp import GradScaler

from launcher.parallel.pipeline import Pipeline
from launcher.trainers.task import Batch

if TYPE_CHECKING:
    from launcher.trainers.evaluation import Tally


class Trainer(Protocol):
    """This rank's part of the model, and how all ranks learn together."""

    #: This rank's part, under the model's own names.
    module: nn.Module
    #: What a checkpoint is made of.
    saved: nn.Module | Pipeline

    def step(self, number: int, batches: Sequence[Batch], scaler: GradScaler) -> torch.Tensor:
        """Make the gradients of an optimizer step, those of all replicas' batches.

        number: of the step, from 0. batches: of this replica. scaler: of the gradients.
        Returns the mean loss of the batches.
        """

    def clip(self, max_norm: float) -> None:
        """Scale the gradients of the whole model down to a norm."""

    def train(self, mode: bool) -> None:
        """Modules are in train mode, or in eval mode."""

    def evaluate(self, batch: Batch, counted: int, tally: Tally) -> None:
        """Give the tally what the model makes of a batch, whose first samples are counted."""

    def state(self) -> dict[str, torch.Tensor]:
        """The whole model's state_dict, on the CPU of rank 0; empty elsewhere. All must call it."""
