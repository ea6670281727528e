"""Losses of microbatches weighted by their number of valid labels.

The mean of the microbatches' mean losses is not the mean over all valid labels if some labels do
not count (padding, `ignore_index`). Each microbatch's mean loss is therefore weighted by its number
of valid labels, over all replicas and all accumulated batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from launcher.parallel.context import ParallelContext
from launcher.parallel.tracing import flatten

__all__ = ["Loss", "Valid", "zero_loss", "trained_by", "graphs", "MeanLoss", "WeightedLoss"]

#: Counts the valid labels among some targets.
Valid = Callable[[Any], "torch.Tensor | int"]
Loss = Callable[[Any, Any], torch.Tensor]


def zero_loss(output: object) -> torch.Tensor:
    """Return a loss of 0 that is connected to all outputs, so that backward reaches them."""
    leaves = [leaf for leaf in flatten(output)[0] if isinstance(leaf, torch.Tensor)]
    # Masked logits are infinite, and sums in 16 bits may be: times 0 they are NaN.
    return sum(((leaf.nan_to_num(0, 0, 0) * 0).sum() for leaf in leaves), torch.zeros(()))


def trained_by(result: object, *, beyond: Iterable[object] = ()) -> Iterator[torch.Tensor]:
    """Yield the leaves of the graph that a backward pass from some tensors would reach.

    beyond: functions in the graph that are not followed.
    """
    seen = set(beyond)
    waiting = [each for each in graphs(result) if each not in seen]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if (leaf := getattr(node, "variable", None)) is not None:
            yield leaf
        waiting += [each for each, _ in node.next_functions if each is not None]


def graphs(value: object) -> Iterator[Any]:
    """Yield the functions in a graph that have computed the tensors in a structure."""
    for leaf in flatten(value)[0]:
        if isinstance(leaf, torch.Tensor) and leaf.grad_fn is not None:
            yield leaf.grad_fn


class MeanLoss:
    """The losses of one optimizer step, averaged. parts: the number of microbatches in the step."""

    def __init__(self, loss: Loss, parts: int) -> None:
        self._loss = loss
        self._parts = parts

    def __call__(self, output: object, target: object) -> tuple[torch.Tensor, float]:
        """Return the loss times its weight, and the weight."""
        return self._loss(output, target) / self._parts, 1 / self._parts

    def divide(self, parameters: Iterable[nn.Parameter], world: ParallelContext) -> None:
        """Do nothing: the losses are already divided."""

    def without_counting(self) -> AbstractContextManager[None]:
        """Return a context that changes nothing."""
        return nullcontext()


class WeightedLoss:
    """The losses of one optimizer step, to be summed and then divided by the sum of their weights.

    loss: of the model's output and the targets; the mean over the valid ones.
    """

    def __init__(self, loss: Loss, valid: Valid) -> None:
        self._loss = loss
        self._valid = valid
        self._count = 0.0

    def __call__(self, output: object, target: object) -> tuple[torch.Tensor, float]:
        """Return the loss times its weight, and the weight."""
        weight = float(self._valid(target))
        self._count += weight
        if weight == 0:  # the mean over no labels is NaN
            return zero_loss(output), weight
        return self._loss(output, target) * weight, weight

    @contextmanager
    def without_counting(self) -> Iterator[None]:
        """Exclude the weights seen within the context from the optimizer step."""
        before = self._count
        try:
            yield
        finally:
            self._count = before

    def divide(self, parameters: Iterable[nn.Parameter], world: ParallelContext) -> None:
        """Divide gradients, which are means over the replicas, by the mean weight of a replica.

        All ranks must call it, once per optimizer step. Ranks with the last stage broadcast the
        weights.
        """
        total = torch.tensor(self._count, dtype=torch.float64, device=world.device)
        self._count = 0.0
        degrees = world.degrees
        if degrees.pipeline > 1:
            last = degrees.holder(degrees.stages - 1)
            dist.broadcast(total, group=world.pp_group, group_src=last)
        dist.all_reduce(total, group=world.dp_group)
        share = degrees.data / total.item() if total else 0.0
        for each in parameters:
            if each.grad is not None:
                each.grad *= share
