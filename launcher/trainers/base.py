"""The interface of trainers, which `data_parallel_trainer` and `pipeline_trainer` implement.

`whole_state` gathers the state that both return.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import nn
from torch.amp import GradScaler
from torch.distributed.tensor import DTensor

from launcher.parallel import Pipeline
from launcher.trainers.task import Batch

if TYPE_CHECKING:
    from launcher.trainers.evaluation import MetricAccumulator


class Trainer(Protocol):
    """This rank's part of the model, and how all ranks train it together."""

    #: This rank's part, under the model's own names.
    module: nn.Module
    #: The source of a checkpoint.
    saved: nn.Module | Pipeline

    def step(self, number: int, batches: Sequence[Batch], scaler: GradScaler) -> torch.Tensor:
        """Compute the gradients of an optimizer step over all replicas' batches.

        Returns the mean loss of the batches.

        number: the step's number, from 0. batches: this replica's batches. scaler: scales
            gradients.
        """

    def clip(self, max_norm: float) -> None:
        """Scale the gradients of the whole model down to a norm."""

    def train(self, mode: bool) -> None:
        """Set the modules to train mode or eval mode."""

    def evaluate(self, batch: Batch, counted: int, metrics: MetricAccumulator) -> None:
        """Add the metrics of a batch's first `counted` samples to the metric accumulator."""

    def state(self) -> dict[str, Any]:
        """Return the full state_dict on the CPU of rank 0, {} elsewhere. All must call it."""


def whole_state(module: nn.Module, *, keep: bool) -> dict[str, Any]:
    """Return a module's state_dict on the CPU, with sharded tensors gathered; {} unless `keep`.

    All ranks that share the module call it. Extra state of modules is left as it is.
    """
    found: dict[str, Any] = {}
    for name, value in module.state_dict().items():
        each = value.full_tensor() if isinstance(value, DTensor) else value
        if keep:
            found[name] = each.cpu() if isinstance(each, torch.Tensor) else each
    return found
