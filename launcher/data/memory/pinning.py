"""Batches in page-locked memory, from which a GPU copies asynchronously while the script runs."""

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
    """Registers slabs with CUDA, and tracks when its copies from them are complete.

    cuda: the module torch.cuda.

    CUDA may still copy after the script has released a tensor (`non_blocking=True`). A slab is
    therefore free only when all work is complete that was queued on the current stream at the time
    of its release. A script that copies on another stream makes the current one wait for it
    (`wait_stream`) before it asks for the next batch, as it must do anyway to use the copy.
    """

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self._busy: collections.deque[tuple[list[int], Any]] = collections.deque()

    def register(self, memory: memoryview) -> None:
        """Lock a slab's pages; raises DataError."""
        error = self._cuda.cudart().cudaHostRegister(address_of(memory), len(memory), 0)
        if int(error) != 0:
            raise DataError(
                f"CUDA could not lock {len(memory) >> 20} MiB of memory for pin_memory=True (error "
                f"{int(error)}): lower data_service.prefetch_bytes, or leave pin_memory out"
            )

    def unregister(self, memory: memoryview) -> None:
        """Unlock a slab's pages."""
        self._cuda.cudart().cudaHostUnregister(address_of(memory))

    def copied(self, released: Iterable[int]) -> list[int]:
        """Return the slabs, released in this call or earlier, that no copy reads any more."""
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
        """Copy this process's arrays into page-locked memory allocated by torch."""
        made = [tensors.as_tensor(array) for array in arrays]
        return [
            tensor.pin_memory().numpy() if tensors.is_tensor(tensor) else tensor for tensor in made
        ]


def open_pinning(wanted: bool) -> Pinning | None:
    """Return the Pinning for DataLoader(pin_memory=), or None if it is not wanted.

    Without CUDA it warns and returns None, as torch's own loader does. Raises DataError if torch is
    not imported.
    """
    if not wanted:
        return None
    torch = sys.modules.get("torch")
    if torch is None:
        raise DataError("pin_memory=True is for tensors: import torch first, or leave it out")
    if not torch.cuda.is_available():
        warnings.warn("pin_memory=True does nothing: this host has no CUDA", stacklevel=3)
        return None
    return Pinning(torch.cuda)
