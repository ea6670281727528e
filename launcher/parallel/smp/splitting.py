"""Splitting of a step function's arguments into those of its microbatches."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from launcher.errors import ParallelError

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
