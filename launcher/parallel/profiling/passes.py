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

    def record_outputs(self, number: int, tensors: Sequence[torch.Tensor]) -> None:
        """Receive the outputs of a module, which are the inputs of the next one."""


@dataclass(frozen=True, kw_only=True)
class Passes:
    """A model cut at every possible boundary, and its input.

    arguments: the model's, in order, for one microbatch. loss: computes the loss from the model's
    output. autocasting: creates the context of a forward pass.
    """

    stages: Sequence[Stage]
    arguments: Sequence[Any]
    loss: Callable[[Any], torch.Tensor]
    autocasting: Callable[[], AbstractContextManager[Any]] = nullcontext

    def run(self, recorder: PassRecorder) -> None:
        """Run forward and backward; adds to the gradients."""
        runs = list(self._forward(recorder))
        _, loss = runs[-1]
        gradients: list[torch.Tensor | None] = [torch.ones_like(each) for each in loss]
        for number, (inputs, outputs) in reversed(list(enumerate(runs))):
            with recorder.backward(number):
                _backward(outputs, gradients)
            gradients = [each.grad for each in inputs]

    def _forward(
        self, recorder: PassRecorder
    ) -> Iterator[tuple[list[torch.Tensor], Sequence[torch.Tensor]]]:
        """Yield the inputs and the outputs of each module."""
        outputs: Sequence[torch.Tensor] = ()
        for number, stage in enumerate(self.stages):
            inputs = [_as_received(each) for each in outputs]
            given = inputs if number else self.arguments
            with recorder.forward(number), self.autocasting():
                output = stage.module(*given)
                if number == len(self.stages) - 1:
                    output = self.loss(output)
            outputs = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
            recorder.record_outputs(number, outputs)
            yield inputs, outputs


def sum_outputs(output: object) -> torch.Tensor:
    """Return the sum of a model's outputs, used in place of a loss."""
    leaves = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    return torch.stack([leaf.sum() for leaf in leaves if leaf.is_floating_point()]).sum()


def _as_received(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor as it would arrive on another rank."""
    return tensor.detach().requires_grad_(tensor.requires_grad)


def _backward(outputs: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor | None]) -> None:
    pairs = [
        (tensor, gradient)
        for tensor, gradient in zip(outputs, gradients, strict=True)
        if tensor.requires_grad and gradient is not None  # None where the next module detaches it
    ]
    if pairs:
        tensors, given = zip(*pairs, strict=True)
        torch.autograd.backward(tensors, given)
