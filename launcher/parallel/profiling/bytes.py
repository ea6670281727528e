"""Memory of a pass by module: bytes kept for the backward pass, and bytes needed meanwhile.

Storages are counted; what kernels and the allocator take beside them is measured.
"""

from __future__ import annotations

import ctypes
import weakref
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
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

    def include(self, measured: Mapping[int, int]) -> None:
        """Take what modules were measured to need where it is more than was counted."""
        for number, count in measured.items():
            self.passing[number] = max(self.passing[number], count)

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


class ProcessMemory:
    """The bytes in use: of torch on a GPU, else the resident ones of the process."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.is_known = device.type == "cuda" or self._can_reset()

    def _can_reset(self) -> bool:
        with suppress(OSError, AttributeError):
            self.begin()
            return True
        return False

    def begin(self) -> int:
        """Give freed memory back, and reset the peak; return the bytes in use."""
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)
            return int(torch.cuda.memory_allocated(self.device))
        ctypes.CDLL(None).malloc_trim(0)
        _CLEAR.write_text(_RESET_PEAK)
        return _resident("VmRSS:")

    @property
    def peak(self) -> int:
        """The most bytes since `begin`."""
        if self.device.type == "cuda":
            return int(torch.cuda.max_memory_allocated(self.device))
        return _resident("VmHWM:")


#: Linux's switch for the peak of resident bytes (proc(5), clear_refs), and what resets it.
_CLEAR, _RESET_PEAK = Path("/proc/self/clear_refs"), "5"
_STATUS = Path("/proc/self/status")
#: Bytes by which the kernel's counts, which each CPU adds in parts, may be off.
_RESOLUTION = 2**20


def known_bytes(count: int) -> int:
    """Return a difference of bytes in use; 0 if it is too small to be known."""
    return count if count >= _RESOLUTION else 0


def _resident(name: str) -> int:
    """Return resident bytes but for those of files, such as the pages of libraries."""
    words = _STATUS.read_text().split()
    all_of_it, *files = (
        int(words[words.index(each) + 1]) for each in (name, "RssFile:", "RssShmem:")
    )
    return (all_of_it - sum(files)) * 1024


class PassPeaks(PassRecorder):
    """Measures what each module needs besides what it keeps, with all that kernels take."""

    def __init__(self, memory: ProcessMemory) -> None:
        self._memory = memory
        self.passing: dict[int, int] = defaultdict(int)

    @contextmanager
    def forward(self, number: int) -> Iterator[None]:
        """Measure a module's forward pass."""
        self._memory.begin()
        yield
        peak = self._memory.peak
        self._add(number, known_bytes(peak - self._memory.begin()))

    @contextmanager
    def backward(self, number: int) -> Iterator[None]:
        """Measure a module's backward pass."""
        before = self._memory.begin()
        yield
        self._add(number, known_bytes(self._memory.peak - before))

    def _add(self, number: int, count: int) -> None:
        self.passing[number] = max(self.passing[number], count)
