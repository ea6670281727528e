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
from launcher.parallel.precision import Precision

#: Types of arguments of the model that are not sent, since each rank has them.
CONSTANTS = (bool, int, float, str, type(None))
#: By name: tensors, and values of CONSTANTS.
Arguments: TypeAlias = "dict[str, Any]"
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
    """Raised at the model call to end the step function; a BaseException, so nothing catches it.

    precision: that of torch.autocast around the call, as in ParallelPart; None outside of it.
    """

    def __init__(self, arguments: Arguments, precision: str | None) -> None:
        super().__init__()
        self.arguments = arguments
        self.precision = precision


class ArgumentCapture:
    """Ends the step function at its model call.

    signature: the signature of the model's forward. may_autocast: false if its stages are known
        to compute in the parameters' own dtype.
    """

    def __init__(
        self, name: str, signature: inspect.Signature, device: torch.device, *, may_autocast: bool
    ) -> None:
        self._name = name
        self._signature = signature
        self._device = device
        self._may_autocast = may_autocast

    def call(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> object:
        """Raise ModelCalled with the arguments, or ParallelError if they cannot be sent."""
        precision = self._precision()
        if precision and not self._may_autocast:
            raise ParallelError(
                f"{self._name} calls the model in torch.autocast, but the first step did not, and "
                "set the precision of its stages: set precision='bf16' (or 'fp16') in the job's "
                "distribution or in smp.init"
            )
        raise ModelCalled(self._arguments(args, kwargs), precision)

    def _precision(self) -> str | None:
        if not torch.is_autocast_enabled(self._device.type):
            return None
        dtype = torch.get_autocast_dtype(self._device.type)
        return Precision.BF16.value if dtype == torch.bfloat16 else Precision.FP16.value

    def backward(self, tensors: _Tensors, gradients: _Tensors | None) -> None:
        """Raise ParallelError: the model must be called first."""
        raise ParallelError(f"{self._name} calls model.backward before the model: swap them")

    def _arguments(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> Arguments:
        bound = self._signature.bind(*args, **kwargs).arguments
        given: Arguments = {}
        for name, parameter in self._signature.parameters.items():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                given |= bound.get(name, {})
            elif name in bound:
                given[name] = bound[name]
            elif isinstance(parameter.default, CONSTANTS):  # so that other calls can be compared
                given[name] = parameter.default
        if all(isinstance(value, CONSTANTS) for value in given.values()):
            name, value = next(iter(given.items()), ("nothing", None))
            raise self._unsendable(name, type(value))
        for name, value in given.items():
            if not isinstance(value, CONSTANTS):
                self._check(name, value)
        return given

    def _check(self, name: str, value: object) -> None:
        if not isinstance(value, torch.Tensor) or not value.dim():
            is_tensor = isinstance(value, torch.Tensor)
            raise self._unsendable(name, "tensor without axes" if is_tensor else type(value))
        if value.requires_grad:
            raise ParallelError(
                f"{self._name} passes {name} to the model, which requires a gradient: only "
                "parameters inside the model are trained; move its computation into the model"
            )

    def _unsendable(self, name: str, what: object) -> ParallelError:
        return ParallelError(
            f"{self._name} passes {name} to the model, a {what}: only tensors with samples can be "
            "sent through a pipeline, and numbers, texts and None beside them; make it an "
            "attribute of the model"
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
