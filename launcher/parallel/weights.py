"""Microbatches that count for more than others: those with more valid labels.

A mean of means is not the mean: with labels that do not count (padding, `ignore_index`), each
microbatch's mean loss must be weighted by how many of its labels do, over all replicas and all
accumulated batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils._pytree import tree_leaves

from launcher.parallel.world import World

#: Of targets: how many of them count.
Valid = Callable[[Any], "torch.Tensor | int"]
Loss = Callable[[Any, Any], torch.Tensor]


def nothing(output: Any) -> torch.Tensor:
    """A loss of 0 that goes back to all that was computed."""
    leaves = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    return sum((leaf.sum() * 0 for leaf in leaves), torch.zeros(()))


class MeanLoss:
    """The losses of one optimizer step, whose mean is its loss. parts: how many there are."""

    def __init__(self, loss: Loss, parts: int) -> None:
        self._loss = loss
        self._parts = parts

    def __call__(self, output: Any, target: Any) -> tuple[torch.Tensor, float]:
        """The loss times its weight, and the weight."""
        return self._loss(output, target) / self._parts, 1 / self._parts

    def divide(self, parameters: Iterable[nn.Parameter], world: World) -> None:
        """Nothing is left to be divided."""

    def uncounted(self) -> AbstractContextManager[None]:
        return nullcontext()


class WeightedLoss:
    """The losses of one optimizer step, to be summed, and then divided by the sum of their weights.

    loss: of what the model returns and the targets; the mean over those that count.
    """

    def __init__(self, loss: Loss, valid: Valid) -> None:
        self._loss = loss
        self._valid = valid
        self._count = 0.0

    def __call__(self, output: Any, target: Any) -> tuple[torch.Tensor, float]:
        """The loss times its weight, and the weight."""
        weight = float(self._valid(target))
        self._count += weight
        if weight == 0:  # a mean over nothing is not a number
            return nothing(output), weight
        return self._loss(output, target) * weight, weight

    @contextmanager
    def uncounted(self) -> Iterator[None]:
        """What is weighed meanwhile is no part of an optimizer step."""
        before = self._count
        try:
            yield
        finally:
            self._count = before

    def divide(self, parameters: Iterable[nn.Parameter], world: World) -> None:
        """Divide gradients, which are means over the replicas, by the mean weight of a replica.

        All ranks must call it, once for each optimizer step. Those of the last stage know weights.
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
