"""Forward and backward passes of one microbatch, module by module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from launcher.parallel.stages import Stage


class PassRecorder:
    """Observer of a pass: provides contexts around each module's part of it."""

    def forward(self, number: int) -> AbstractContextManager[Any]:
        """Return a context for a module's forward pass."""
        return nullcontext()

    def backward(self, number: int) -> AbstractContextManager[Any]:
        """Return a context for a module's backward pass."""
        return nullcontext()

    def left(self, number: int, tensors: Sequence[torch.Tensor]) -> None:
        """Receive the outputs of a module, which are the inputs of the next one."""


@dataclass(frozen=True, kw_only=True)
class Passes:
    """A model cut at every possible boundary, and its input.

    arguments: of the model, in order, for one microbatch. end: makes the loss from the model's
    output. autocasting: makes the context of a forward pass.
    """

    stages: Sequence[Stage]
    arguments: Sequence[Any]
    end: Callable[[Any], torch.Tensor]
    autocasting: Callable[[], AbstractContextManager[Any]] = nullcontext

    def run(self, watch: PassRecorder) -> None:
        """Run forward and backward; adds to the gradients."""
        trips = list(self._forward(watch))
        _, end = trips[-1]
        gradients: list[torch.Tensor | None] = [torch.ones_like(each) for each in end]  # the loss
        for number, (taken, left) in reversed(list(enumerate(trips))):
            with watch.backward(number):
                _go_back(left, gradients)
            gradients = [each.grad for each in taken]

    def _forward(
        self, watch: PassRecorder
    ) -> Iterator[tuple[list[torch.Tensor], Sequence[torch.Tensor]]]:
        """Yield the inputs and the outputs of each module."""
        left: Sequence[torch.Tensor] = ()
        for number, stage in enumerate(self.stages):
            taken = [_fresh(each) for each in left]
            given = taken if number else self.arguments
            with watch.forward(number), self.autocasting():
                output = stage.module(*given)
                if number == len(self.stages) - 1:
                    output = self.end(output)
            left = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
            watch.left(number, left)
            yield taken, left


def total(output: object) -> torch.Tensor:
    """Return the sum of all that a model returns, to stand in for a loss."""
    leaves = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    return torch.stack([leaf.sum() for leaf in leaves if leaf.is_floating_point()]).sum()


def _fresh(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor as it would arrive on another rank."""
    return tensor.detach().requires_grad_(tensor.requires_grad)


def _go_back(left: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor | None]) -> None:
    pairs = [
        (tensor, gradient)
        for tensor, gradient in zip(left, gradients, strict=True)
        if tensor.requires_grad and gradient is not None  # None where the next module detaches it
    ]
    if pairs:
        tensors, given = zip(*pairs, strict=True)
        torch.autograd.backward(tensors, given)
