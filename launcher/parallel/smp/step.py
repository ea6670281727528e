"""`@step`: a function that is written for a batch and runs for each of its microbatches.

In the first stage it runs up to its model call, which provides the model's arguments. In the last
stage it runs again, receives the model's output and continues to its end. It must do the same both
times; the random numbers that it draws are the same. What it returns is there for all microbatches,
on all ranks of a replica.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from launcher.errors import ParallelError
from launcher.parallel.context import ParallelContext
from launcher.parallel.randomness import seeded
from launcher.parallel.smp.call_interception import (
    ArgumentCapture,
    CallInterceptor,
    ModelCalled,
    OutputReplay,
)
from launcher.parallel.smp.distributed_model import DistributedModel
from launcher.parallel.smp.smp_session import session


def step(
    function: Callable[..., Any] | None = None,
    *,
    non_split_inputs: Collection[str] = (),
    input_split_axes: Mapping[str, int] | None = None,
    detach_outputs: bool = True,
) -> Callable[..., Any]:
    """Decorate a function with one model call, to run in the pipeline for each microbatch.

    In train mode it must call `model.backward(loss)`; in eval mode, or under torch.no_grad, it must
    not. Its arguments are split along axis 0, or along input_split_axes. Its return value is the
    same on all ranks of a replica, with a StepOutput for each tensor. Raises ParallelError.
    """
    if function is None:
        return functools.partial(
            step,
            non_split_inputs=non_split_inputs,
            input_split_axes=input_split_axes,
            detach_outputs=detach_outputs,
        )
    if not detach_outputs:
        raise ParallelError(
            f"{function.__name__}: detach_outputs=False would return autograd graphs, which cannot "
            "be sent to other ranks: leave it out"
        )
    return SteppedFunction(function, splitting(function, non_split_inputs, input_split_axes or {}))


class SteppedFunction:
    """A function that runs for each microbatch of its arguments.

    As an attribute of a class it is called with the instance only if its first parameter is `self`:
    scripts for smp also define it in a class without one.
    """

    def __init__(self, function: Callable[..., Any], inputs: Splitting) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._inputs = inputs

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Run the step; return its output for all microbatches."""
        model, count = _model(self._function), session().part.microbatches
        given = model.arguments.agreed(self._inputs.named(args, kwargs), session().world)
        return _Step(self._function, self._inputs.microbatches(given, count), model).run()

    def __get__(self, instance: object, owner: type) -> Callable[..., Any]:
        takes_self = next(iter(self._inputs.signature.parameters), None) == "self"
        return functools.partial(self, instance) if takes_self and instance is not None else self


def _model(function: Callable[..., Any]) -> DistributedModel:
    models = session().models
    if not models:
        raise ParallelError(
            f"{function.__name__} was called before the model exists: create smp.DistributedModel"
        )
    found: DistributedModel = models[0]
    return found


class _Step:
    """One call of a step function. parts: its arguments for each microbatch."""

    def __init__(
        self,
        function: Callable[..., object],
        parts: list[inspect.BoundArguments],
        model: DistributedModel,
    ) -> None:
        self._function = function
        self._name = function.__name__
        self._parts = parts
        self._model = model
        self._training = model.training and torch.is_grad_enabled()
        self._returned: dict[int, Any] = {}
        self._number = model.begin_step(self._loss)

    def run(self) -> Any:
        """Run the microbatches through the pipeline and return the merged outputs."""
        model, world = self._model, session().world
        called = self._call(0)  # on all ranks, since all need the shapes
        example = called.arguments
        if not model.partitioned:
            model.partition(example, called.precision)
        pipeline = model.pipeline
        pipeline.expect(*example.values())
        inputs = self._inputs() if pipeline.is_first else []
        target = torch.arange(len(self._parts), device=world.device)
        if self._training:
            optimizer = next(iter(session().optimizers), None)
            pipeline.step(
                *inputs,
                target=target,
                is_last=model.count_backward_pass(),
                scaler=optimizer and optimizer.scaler,
            )
        else:
            pipeline.evaluate(*inputs, target=target)
        returned = [self._returned[number] for number in sorted(self._returned)]
        return merge(self._name, broadcast_outputs(returned, world))

    def _inputs(self) -> list[object]:
        """Return the model's arguments, with tensors concatenated over all microbatches."""
        given = [self._call(number).arguments for number in range(len(self._parts))]
        return [self._joined(name, [each[name] for each in given]) for name in given[0]]

    def _joined(self, name: str, values: list[Any]) -> object:
        first, *others = values
        if isinstance(first, torch.Tensor):
            return torch.cat(values).to(session().world.device)
        if any(other != first for other in others):
            raise ParallelError(
                f"{self._name} passes {name} to the model as {first!r} for one microbatch and "
                f"{others!r} for others: pass it as a tensor with samples"
            )
        return first

    def _call(self, microbatch: int) -> ModelCalled:
        interceptor = ArgumentCapture(
            self._name,
            self._model.signature,
            session().world.device,
            may_autocast=not self._model.partitioned or self._model.precision is not None,
        )
        try:
            self._run(microbatch, interceptor)
        except ModelCalled as reached:
            return reached
        raise ParallelError(
            f"{self._name} does not call the model: a step needs exactly one model call"
        )

    def _loss(self, output: object, microbatch: int) -> torch.Tensor:
        interceptor = OutputReplay(self._name, output, training=self._training)
        self._returned[microbatch] = self._run(microbatch, interceptor)
        if not self._training:
            return torch.zeros((), device=session().world.device)
        if interceptor.loss is None:
            raise ParallelError(
                f"{self._name} does not call model.backward in train mode: call it with the loss, "
                "or call model.eval() before an evaluation"
            )
        return interceptor.loss if self._model.averages else interceptor.loss * len(self._parts)

    def _run(self, microbatch: int, interceptor: CallInterceptor) -> Any:
        """Run the function, with the same random numbers in the first and the last stage."""
        part = self._parts[microbatch]
        key = (self._model.seed, "step", self._number, session().world.dp_rank, microbatch)
        with self._model.intercepting(interceptor), seeded(*key):
            return self._function(*part.args, **part.kwargs)


#: Collections that are not split.
_WHOLE = (str, bytes, range, nn.Module)


@dataclass(frozen=True, kw_only=True)
class Splitting:
    """Rules for splitting a function's arguments. whole: unsplit ones; axes: axes of samples."""

    name: str
    signature: inspect.Signature
    whole: Collection[str]
    axes: Mapping[str, int]

    def named(self, args: tuple[object, ...], kwargs: Mapping[str, object]) -> dict[str, Any]:
        """Return the arguments of a call by name."""
        return dict(self.signature.bind(*args, **kwargs).arguments)

    def microbatches(
        self, arguments: Mapping[str, object], count: int
    ) -> list[inspect.BoundArguments]:
        """Return the arguments of each microbatch. Raises ParallelError if one cannot be split."""
        return [self._of(arguments, number, count) for number in range(count)]

    def _of(
        self, arguments: Mapping[str, object], number: int, count: int
    ) -> inspect.BoundArguments:
        found = {
            name: value
            if name in self.whole
            else self._part(value, name, self.axes.get(name, 0), number, count)
            for name, value in arguments.items()
        }
        return inspect.BoundArguments(self.signature, found)

    def _part(self, value: Any, name: str, axis: int, number: int, count: int) -> Any:
        def part(inner: object) -> Any:
            return self._part(inner, name, axis, number, count)

        if isinstance(value, torch.Tensor):
            self._check(value, name, axis, count)
            return value.chunk(count, dim=axis)[number]
        if hasattr(value, "smp_slice"):
            return value.smp_slice(count, number, axis)
        if type(value) in (list, tuple, set):
            return type(value)(map(part, value))
        if isinstance(value, dict):
            return {key: part(inner) for key, inner in value.items()}
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*map(part, value))
        if isinstance(value, Collection) and not isinstance(value, _WHOLE):
            raise ParallelError(
                f"{self.name}: {name} is a {type(value).__name__}, which cannot be split into "
                "microbatches: pass tensors, or lists, tuples or dicts of them, or add a method "
                f"smp_slice(count, number, axis), or set non_split_inputs=[{name!r}]"
            )
        return value

    def _check(self, tensor: torch.Tensor, name: str, axis: int, count: int) -> None:
        if not -tensor.dim() <= axis < tensor.dim():
            raise ParallelError(
                f"{self.name}: {name} has the shape {tuple(tensor.shape)}, without an axis {axis} "
                f"of samples: set non_split_inputs=[{name!r}], or its axis in input_split_axes"
            )
        if tensor.shape[axis] % count:
            raise ParallelError(
                f"{self.name}: {name} has {tensor.shape[axis]} samples in axis {axis}, which is "
                f"not divisible by {count} microbatches: use a divisible batch size and "
                f"drop_last=True, or set non_split_inputs=[{name!r}] if it has no samples"
            )


def splitting(
    function: Callable[..., object], whole: Collection[str], axes: Mapping[str, int]
) -> Splitting:
    """Return the splitting rules of a function. Raises ParallelError for unknown arguments."""
    signature = inspect.signature(function)
    for name in (*whole, *axes):
        if name not in signature.parameters:
            known = ", ".join(signature.parameters)
            raise ParallelError(
                f"{function.__name__} has no argument {name!r}, which non_split_inputs or "
                f"input_split_axes names: it has {known}"
            )
    return Splitting(name=function.__name__, signature=signature, whole=whole, axes=axes)


class StepOutput:
    """A tensor that a step function returned, once for each microbatch."""

    def __init__(self, outputs: Sequence[torch.Tensor]) -> None:
        self.outputs = list(outputs)

    def __getitem__(self, microbatch: int) -> torch.Tensor:
        return self.outputs[microbatch]

    def __len__(self) -> int:
        return len(self.outputs)

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(self.outputs)

    def reduce_mean(self) -> torch.Tensor:
        """Return the mean over the microbatches."""
        return self.stack().mean(dim=0)

    def reduce_sum(self) -> torch.Tensor:
        """Return the sum over the microbatches."""
        return self.stack().sum(dim=0)

    def concat(self) -> torch.Tensor:
        """Concatenate along the sample axis; scalars become a vector."""
        return torch.cat([torch.atleast_1d(each) for each in self.outputs])

    def stack(self) -> torch.Tensor:
        """Stack along a new first axis."""
        return torch.stack(self.outputs)

    def __repr__(self) -> str:
        return f"StepOutput({self.outputs!r})"


def broadcast_outputs(returned: Sequence[object], world: ParallelContext) -> list[Any]:
    """Return the last stage's return values of all microbatches on all ranks of the replica."""
    found = [tree_map_only(torch.Tensor, lambda tensor: tensor.detach(), each) for each in returned]
    if world.degrees.pipeline == 1:
        return found
    last = world.degrees.holder(world.degrees.stages - 1)
    received = [tree_map_only(torch.Tensor, lambda tensor: tensor.cpu(), found)]
    dist.broadcast_object_list(received, group=world.pp_group, group_src=last, device=world.device)
    if world.pp_rank == last:
        return found
    (here,) = tree_map_only(torch.Tensor, lambda tensor: tensor.to(world.device), received)
    return list(here)


def merge(name: str, returned: Sequence[object]) -> object:
    """Return the common structure of all microbatches, with a StepOutput for each tensor.

    A number becomes the list of those of all microbatches.

    name: the step function's name. Raises ParallelError for other values that differ.
    """
    flat, (spec, *others) = zip(*map(tree_flatten, returned), strict=True)
    if any(other != spec for other in others):
        raise ParallelError(
            f"{name} returned different structures for different microbatches: {returned!r}"
        )
    return tree_unflatten([_merged(name, values) for values in zip(*flat, strict=True)], spec)


def _merged(name: str, values: tuple[object, ...]) -> Any:
    first, *others = values
    if isinstance(first, torch.Tensor):
        return StepOutput(values)
    if all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in values):
        return list(values)
    if any(other != first for other in others):
        raise ParallelError(
            f"{name} returned {first!r} for one microbatch and {others!r} for others: return "
            "torch.tensor(...) instead"
        )
    return first
