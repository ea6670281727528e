"""Observation of the operations beneath a trace: which write to a model's state, or read values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Seen(NamedTuple):
    """Numbers of operations that an observation has seen."""

    reads: int
    dynamic: int
    draws: int
    writes: int


class Observation(TorchDispatchMode):  # type: ignore[misc] # torch types it as Any
    """Keeps a copy of each tensor of the model's state before it is first written to.

    tensors: the state. on_write: called with the storage that an operation writes to.
    """

    def __init__(
        self, tensors: Iterable[torch.Tensor], on_write: Callable[[int], None] = lambda _: None
    ) -> None:
        super().__init__()
        self._state: dict[int, list[torch.Tensor]] = {}
        for each in tensors:
            self._state.setdefault(place(each), []).append(each)
        self._copies: dict[int, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        self._on_write = on_write
        #: Operations so far that gave values of tensors to Python, whose output's shape depends on
        #: values, and that may draw random numbers.
        self.reads = self.dynamic = self.draws = 0
        #: The storages that were written to, in order.
        self.written: list[int] = []

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        given = kwargs or {}
        self.reads += torch.Tag.data_dependent_output in func.tags
        self.dynamic += _is_dynamic(func, args)
        self.draws += torch.Tag.nondeterministic_seeded in func.tags
        for tensor in _written(func, args, given):
            self._write(tensor)
        return func(*args, **given)

    def now(self) -> Seen:
        """Return what was seen so far."""
        return Seen(self.reads, self.dynamic, self.draws, writes=len(self.written))

    def restore(self) -> None:
        """Put back what was written to the model's state."""
        for copies in self._copies.values():
            for tensor, copy in copies:
                tensor.data.copy_(copy)
        self._copies.clear()

    def _write(self, tensor: torch.Tensor) -> None:
        where = place(tensor)
        self.written.append(where)
        if where in self._state:
            if where not in self._copies:
                self._copies[where] = [(x, x.detach().clone()) for x in self._state[where]]
            self._on_write(where)


def place(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's storage, the same for all views of it."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # sparse tensors have none, nor has functorch's
        return -id(tensor)


def _written(
    func: OpOverload, args: tuple[object, ...], kwargs: dict[str, object]
) -> Iterable[torch.Tensor]:
    arguments = func._schema.arguments
    if func._schema.is_mutable:
        for number, argument in enumerate(arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                given = args[number] if number < len(args) else kwargs.get(argument.name)
                yield from (leaf for leaf in tree_leaves(given) if isinstance(leaf, torch.Tensor))
    elif _is_batch_norm(func):  # its schema does not tell that it writes to its statistics
        named = dict(zip((each.name for each in arguments), args, strict=False)) | kwargs
        if named.get("training", named.get("train")):
            yield from filter(
                torch.is_tensor, (named.get("running_mean"), named.get("running_var"))
            )


def _is_batch_norm(func: OpOverload) -> bool:
    name = str(func._schema.name)
    return "batch_norm" in name and "backward" not in name


def _is_dynamic(func: OpOverload, args: tuple[object, ...]) -> bool:
    """Return whether the shape of an operation's output depends on the values of tensors."""
    if func.overloadpacket is torch.ops.aten.index:  # by whole numbers it does not
        indices = [each for each in tree_leaves(args[1]) if isinstance(each, torch.Tensor)]
        return any(each.dtype in (torch.bool, torch.uint8) for each in indices)
    is_packing = func.overloadpacket is torch.ops.aten._pack_padded_sequence  # torch lacks its tag
    return is_packing or torch.Tag.dynamic_output_shape in func.tags
