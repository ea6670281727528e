"""One microbatch through a model, module by module, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from launcher.parallel.stages import Stage


class Watch:
    """What is noted of a pass: contexts around each module's part of it."""

    def forward(self, number: int) -> AbstractContextManager[Any]:
        return nullcontext()

    def backward(self, number: int) -> AbstractContextManager[Any]:
        return nullcontext()

    def left(self, number: int, tensors: Sequence[torch.Tensor]) -> None:
        """What a module gives to the next one."""


@dataclass(frozen=True, kw_only=True)
class Passes:
    """A model cut at all places where it can be, and what goes through it.

    arguments: of the model, in order, for one microbatch. end: makes what goes back of what the
    model returns. autocasting: makes the context of a forward pass.
    """

    stages: Sequence[Stage]
    arguments: Sequence[Any]
    end: Callable[[Any], torch.Tensor]
    autocasting: Callable[[], AbstractContextManager[Any]] = nullcontext

    def run(self, watch: Watch) -> None:
        """Forward and back; adds to the gradients."""
        trips = list(self._forward(watch))
        _, end = trips[-1]
        gradients: list[torch.Tensor | None] = [torch.ones_like(each) for each in end]  # the loss
        for number, (taken, left) in reversed(list(enumerate(trips))):
            with watch.backward(number):
                _go_back(left, gradients)
            gradients = [each.grad for each in taken]

    def _forward(self, watch: Watch) -> Iterator[tuple[list[torch.Tensor], Sequence[torch.Tensor]]]:
        """What each module took, and what it left."""
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


def total(output: Any) -> torch.Tensor:
    """What goes back where there is no loss: the sum of all that a model returns."""
    leaves = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    return torch.stack([leaf.sum() for leaf in leaves if leaf.is_floating_point()]).sum()


def _fresh(tensor: torch.Tensor) -> torch.Tensor:
    """As it arrives on another rank."""
    return tensor.detach().requires_grad_(tensor.requires_grad)


def _go_back(left: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor | None]) -> None:
    pairs = [
        (tensor, gradient)
        for tensor, gradient in zip(left, gradients, strict=True)
        if tensor.requires_grad and gradient is not None  # none comes where the next detaches it
    ]
    if pairs:
        tensors, given = zip(*pairs, strict=True)
        torch.autograd.backward(tensors, given)
