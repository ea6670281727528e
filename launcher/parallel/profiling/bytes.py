"""The bytes of a pass, by module: what waits for the backward pass, and what is needed beside."""

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

from launcher.parallel.profiling.passes import Watch
from launcher.partitions.costs import Joint


class Ledger(Watch):
    """Counts the storages that autograd keeps, each once, and the most bytes in use at a time.

    own: parameters and buffers, and what else is there without it.
    """

    def __init__(self, own: Sequence[torch.Tensor]) -> None:
        self._made_by: dict[int, int] = {place(each): -1 for each in own}
        self._kept: dict[int, tuple[int, int]] = {}  # storages: who has kept it first, its bytes
        self._alive = Alive()
        self._running = 0
        self.passing: dict[int, int] = defaultdict(int)

    def kept(self, number: int) -> int:
        """Bytes that a module has made, and keeps."""
        mine = [(where, size) for where, (by, size) in self._kept.items() if by == number]
        return sum(size for where, size in mine if self._made_by[where] == number)

    def joints(self) -> Iterator[Joint]:
        """What one module has made, and a later one keeps."""
        together: dict[tuple[int, int], int] = defaultdict(int)
        for where, (by, size) in self._kept.items():
            if 0 <= self._made_by[where] < by:
                together[self._made_by[where], by] += size
        for (first, second), size in sorted(together.items()):
            yield Joint(first=first, second=second, kept=size)

    @contextmanager
    def forward(self, number: int) -> Iterator[None]:
        def keep(tensor: torch.Tensor) -> torch.Tensor:
            self._keep(number, tensor)
            return tensor

        self._running = number
        self._alive.begin()
        with self._alive, saved_tensors_hooks(keep, lambda tensor: tensor):
            yield
        self.passing[number] = self._alive.most - self._alive.now

    @contextmanager
    def backward(self, number: int) -> Iterator[None]:
        self._alive.begin()
        before = self._alive.now
        with self._alive:
            yield
        self.passing[number] = max(self.passing[number], self._alive.most - before)

    def left(self, number: int, tensors: Sequence[torch.Tensor]) -> None:
        for each in tensors:
            self._made_by.setdefault(place(each), number)

    def take(self, _: nn.Module, arguments: Any) -> None:
        """Before a call of a module that computes its activations again: it keeps its inputs."""
        for leaf in tree_leaves(arguments):
            if isinstance(leaf, torch.Tensor):
                self._keep(self._running, leaf)

    def _keep(self, number: int, tensor: torch.Tensor) -> None:
        where = place(tensor)
        if self._made_by.setdefault(where, number) >= 0:
            self._kept.setdefault(where, (number, tensor.untyped_storage().nbytes()))


class Alive(TorchDispatchMode):  # type: ignore[misc] # torch says Any of it
    """Bytes of the storages that were made under it and are still there. most: at any time."""

    def __init__(self) -> None:
        super().__init__()
        self._known: set[int] = set()
        self.now = 0
        self.most = 0

    def begin(self) -> None:
        self.most = self.now

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
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._drop, where, size)

    def _drop(self, where: int, size: int) -> None:
        self._known.discard(where)
        self.now -= size


def place(tensor: torch.Tensor) -> int:
    """Of its storage: the same for all views of it."""
    return int(tensor.untyped_storage()._cdata)
