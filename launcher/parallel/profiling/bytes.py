"""Memory of a pass by module: bytes kept for the backward pass, and bytes needed meanwhile."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from launcher.parallel.profiling.passes import PassRecorder
from launcher.shared import Joint


class AllocationTracker(PassRecorder):
    """Counts the storages that autograd keeps, each once, and the peak of bytes in use.

    own: parameters and buffers, and whatever else exists independently of the pass.
    """

    def __init__(self, own: Sequence[torch.Tensor]) -> None:
        self._created_by: dict[int, int] = {place(each): -1 for each in own}
        self._kept: dict[int, tuple[int, int]] = {}  # by storage: first module to keep it, bytes
        self._alive = LiveBytes()
        self._running = 0
        self.passing: dict[int, int] = defaultdict(int)

    def kept(self, number: int) -> int:
        """Return the bytes that a module has both created and kept."""
        mine = [(where, size) for where, (by, size) in self._kept.items() if by == number]
        return sum(size for where, size in mine if self._created_by[where] == number)

    def joints(self) -> Iterator[Joint]:
        """Yield the bytes that one module has created and a later one keeps, by pair."""
        together: dict[tuple[int, int], int] = defaultdict(int)
        for where, (by, size) in self._kept.items():
            if 0 <= self._created_by[where] < by:
                together[self._created_by[where], by] += size
        for (first, second), size in sorted(together.items()):
            yield Joint(first=first, second=second, kept=size)

    @contextmanager
    def forward(self, number: int) -> Iterator[None]:
        """Record the storages kept and the peak of a module's forward pass."""

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            self._keep(number, tensor)
            return tensor

        self._running = number
        self._alive.begin()
        with self._alive, saved_tensors_hooks(keep, lambda tensor: tensor):
            yield
        self.passing[number] = self._alive.peak - self._alive.now

    @contextmanager
    def backward(self, number: int) -> Iterator[None]:
        """Record the peak of a module's backward pass."""
        self._alive.begin()
        before = self._alive.now
        with self._alive:
            yield
        self.passing[number] = max(self.passing[number], self._alive.peak - before)

    def record_outputs(self, number: int, tensors: Sequence[torch.Tensor]) -> None:
        """Record a module as the creator of its outputs."""
        for each in tensors:
            self._created_by.setdefault(place(each), number)

    def record_inputs(self, _: nn.Module, arguments: object) -> None:
        """Record the inputs of a module that recomputes its activations; called before it runs."""
        for leaf in tree_leaves(arguments):
            if isinstance(leaf, torch.Tensor):
                self._keep(self._running, leaf)

    def _keep(self, number: int, tensor: torch.Tensor) -> None:
        where = place(tensor)
        if self._created_by.setdefault(where, number) >= 0:
            self._kept.setdefault(where, (number, tensor.untyped_storage().nbytes()))


class LiveBytes(TorchDispatchMode):  # type: ignore[misc] # torch types it as Any
    """Counts the bytes of storages created under it that still exist. peak: the most so far."""

    def __init__(self) -> None:
        super().__init__()
        self._known: set[int] = set()
        self.now = 0
        self.peak = 0

    def begin(self) -> None:
        """Reset the peak."""
        self.peak = self.now

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        taken = {place(leaf) for leaf in tree_leaves((args, kwargs)) if torch.is_tensor(leaf)}
        for leaf in tree_leaves(output):
            if torch.is_tensor(leaf) and place(leaf) not in taken | self._known:
                self._add(leaf.untyped_storage())
        return output

    def _add(self, storage: torch.UntypedStorage) -> None:
        where, size = int(storage._cdata), storage.nbytes()
        self._known.add(where)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._drop, where, size)

    def _drop(self, where: int, size: int) -> None:
        self._known.discard(where)
        self.now -= size


def place(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's storage, the same for all views of it."""
    return int(tensor.untyped_storage()._cdata)
