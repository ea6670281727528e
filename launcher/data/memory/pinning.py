"""Batches in page-locked memory, from which a GPU copies by itself while the script goes on."""

from __future__ import annotations

import collections
import sys
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy.typing as npt

from launcher.data.batches import tensors
from launcher.data.memory.mapping import address_of
from launcher.errors import DataError

Array = npt.NDArray[Any]


class Pinning:
    """Registers slabs with CUDA, and knows when its copies from them are over.

    cuda: the module torch.cuda.

    CUDA copies on after the script has let go of a tensor (`non_blocking=True`), so a slab is free
    only when all work is done that the current stream had been given when it was let go of. A
    script that copies on another stream makes the current one wait for it (`wait_stream`) before it
    asks for the next batch, as it must do anyway to use the copy.
    """

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self._busy: collections.deque[tuple[list[int], Any]] = collections.deque()

    def register(self, memory: memoryview) -> None:
        """Lock a slab's pages. Raises DataError."""
        error = self._cuda.cudart().cudaHostRegister(address_of(memory), len(memory), 0)
        if int(error) != 0:
            raise DataError(
                f"CUDA could not lock {len(memory) >> 20} MiB of memory for pin_memory=True (error "
                f"{int(error)}): lower data_service.prefetch_bytes, or leave pin_memory out"
            )

    def unregister(self, memory: memoryview) -> None:
        self._cuda.cudart().cudaHostUnregister(address_of(memory))

    def copied(self, released: Iterable[int]) -> list[int]:
        """Of the slabs that were released now or before, those that no copy reads any more."""
        if slabs := list(released):
            event = self._cuda.Event()
            event.record()
            self._busy.append((slabs, event))
        done: list[int] = []
        while self._busy and self._busy[0][1].query():
            done += self._busy.popleft()[0]
        return done

    @staticmethod
    def copies(arrays: Sequence[Array]) -> list[Array]:
        """Arrays of this process in page-locked memory of torch's own."""
        made = [tensors.as_tensor(array) for array in arrays]
        return [
            tensor.pin_memory().numpy() if tensors.is_tensor(tensor) else tensor for tensor in made
        ]


def open_pinning(wanted: bool) -> Pinning | None:
    """What DataLoader(pin_memory=) asks for; without CUDA a warning, as torch's loader gives it."""
    if not wanted:
        return None
    torch = sys.modules.get("torch")
    if torch is None:
        raise DataError("pin_memory=True is for tensors: import torch first, or leave it out")
    if not torch.cuda.is_available():
        warnings.warn("pin_memory=True does nothing: this host has no CUDA", stacklevel=3)
        return None
    return Pinning(torch.cuda)
