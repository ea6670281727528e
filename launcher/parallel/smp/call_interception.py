"""Interceptors of model calls while a step function runs.

In the first stage the interceptor ends the function at its model call, since only the arguments are
needed. In the last stage it returns the model's output.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import torch
from torch.utils._pytree import tree_leaves

from launcher.errors import ParallelError

Arguments: TypeAlias = "dict[str, torch.Tensor]"
_Tensors: TypeAlias = "torch.Tensor | Sequence[torch.Tensor]"


class CallInterceptor(Protocol):
    """The object behind a DistributedModel while a step function runs."""

    def call(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        """Handle a call of the model."""
        ...

    def backward(self, tensors: _Tensors, gradients: _Tensors | None) -> None:
        """Handle a call of `model.backward`."""
        ...


class ModelCalled(BaseException):
    """Raised at the model call to end the step function; a BaseException, so nothing catches it."""

    def __init__(self, arguments: Arguments) -> None:
        super().__init__()
        self.arguments = arguments


class ArgumentCapture:
    """Ends the step function at its model call.

    signature: the signature of the model's forward. is_mixed: true if its stages compute in 16
        bits.
    """

    def __init__(
        self, name: str, signature: inspect.Signature, device: torch.device, *, is_mixed: bool
    ) -> None:
        self._name = name
        self._signature = signature
        self._device = device
        self._is_mixed = is_mixed

    def call(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        """Raise ModelCalled with the arguments, or ParallelError if they cannot be sent."""
        if torch.is_autocast_enabled(self._device.type) and not self._is_mixed:
            raise ParallelError(
                f"{self._name} calls the model in torch.autocast, which has no effect on its "
                "stages: set precision='bf16' (or 'fp16') in the job's distribution or in smp.init"
            )
        raise ModelCalled(self._arguments(args, kwargs))

    def backward(self, tensors: _Tensors, gradients: _Tensors | None) -> None:
        """Raise ParallelError: the model must be called first."""
        raise ParallelError(f"{self._name} calls model.backward before the model: swap them")

    def _arguments(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Arguments:
        given = self._signature.bind(*args, **kwargs).arguments
        expected = list(self._signature.parameters)[: len(given)]
        if list(given) != expected:
            missing = ", ".join(name for name in expected if name not in given)
            raise ParallelError(
                f"{self._name} calls the model without {missing} but with later arguments: pass "
                "all arguments up to the last one, as tensors"
            )
        for name, value in given.items():
            self._check(name, value)
        return dict(given)

    def _check(self, name: str, value: object) -> None:
        if not isinstance(value, torch.Tensor) or not value.dim():
            what = "tensor without axes" if isinstance(value, torch.Tensor) else type(value)
            raise ParallelError(
                f"{self._name} passes {name} to the model, a {what}: only tensors with samples can "
                "be sent through a pipeline; make it an attribute of the model"
            )
        if value.requires_grad:
            raise ParallelError(
                f"{self._name} passes {name} to the model, which requires a gradient: only "
                "parameters inside the model are trained; move its computation into the model"
            )


class OutputReplay:
    """Returns the model's output from the model call, and keeps the loss.

    loss: None until model.backward.
    """

    def __init__(self, name: str, output: object, *, training: bool) -> None:
        self._name = name
        self._output = output
        self._training = training
        self._is_called = False
        leaves = [each for each in tree_leaves(output) if isinstance(each, torch.Tensor)]
        self._origins = {each.grad_fn or each for each in leaves if each.requires_grad}
        self.loss: torch.Tensor | None = None

    def call(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        """Return the model's output. Raises ParallelError for a second call."""
        if self._is_called:
            raise ParallelError(
                f"{self._name} calls the model twice for a microbatch, but a step has one model "
                "call: concatenate the inputs, or use two steps"
            )
        self._is_called = True
        return self._output

    def backward(self, tensors: _Tensors, gradients: _Tensors | None) -> None:
        """Keep the loss. Raises ParallelError in eval mode, if called twice or without gradient."""
        if not self._training:
            raise ParallelError(
                f"{self._name} calls model.backward in eval mode, or without gradients: call "
                "model.train() first; a layer that must not train can be set to eval mode by itself"
            )
        if self.loss is not None:
            raise ParallelError(
                f"{self._name} calls model.backward twice for a microbatch: add up the losses"
            )
        loss = _scalar(tensors, gradients)
        if not _depends_on(loss, self._origins):
            raise ParallelError(
                f"the loss of {self._name} does not depend on the model's output, or is detached "
                "from it: compute it from the model's output, without detach()"
            )
        self.loss = loss


def _scalar(tensors: _Tensors, gradients: _Tensors | None) -> torch.Tensor:
    """Return a scalar whose gradient is that of torch.autograd.backward(tensors, gradients)."""
    every = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    given = [gradients] if isinstance(gradients, torch.Tensor) else list(gradients or [])
    given += [None] * (len(every) - len(given))
    for tensor, gradient in zip(every, given, strict=True):
        if gradient is None and tensor.numel() != 1:
            raise ParallelError(
                f"model.backward got a tensor of shape {tuple(tensor.shape)}: pass its mean, or "
                "pass its gradient as the second argument"
            )
    return sum(
        tensor.sum() if gradient is None else (tensor * gradient).sum()
        for tensor, gradient in zip(every, given, strict=True)
    )


def _depends_on(loss: torch.Tensor, origins: set[object]) -> bool:
    pending: list[Any] = [loss.grad_fn or loss]
    seen: set[Any] = set()
    while pending:
        node = pending.pop()
        if (
            node in origins or getattr(node, "variable", None) in origins
        ):  # the leaf of an AccumulateGrad
            return True
        following = (each for each, _ in getattr(node, "next_functions", ()) if each is not None)
        new = set(following) - seen
        seen |= new
        pending += new
    return False
