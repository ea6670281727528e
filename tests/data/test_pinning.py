"""Page-locked batches, up to the edge of CUDA, which stands in for itself here."""

from __future__ import annotations

import collections
import os
import sys
import warnings
from typing import Any

import pytest

from launcher.data.memory import Pinning, SlabViews, open_pinning
from launcher.errors import DataError


class Cuda:
    """What torch.cuda would be asked, on a host that has one."""

    def __init__(self) -> None:
        self.locked: dict[int, int] = {}
        self.error = 0
        self.finished: set[int] = set()
        self.events = 0

    def cudart(self) -> Cuda:
        return self

    def cudaHostRegister(self, address: int, size: int, _flags: int) -> int:  # noqa: N802 - CUDA's
        self.locked[address] = size
        return self.error

    def cudaHostUnregister(self, address: int) -> int:  # noqa: N802 - CUDA's
        del self.locked[address]
        return 0

    def Event(self) -> Any:  # noqa: N802 - torch's
        cuda, number = self, self.events
        self.events += 1

        class Event:
            def record(self) -> None:
                return None

            def query(self) -> bool:
                return number in cuda.finished

        return Event()


def slab(size: int) -> int:
    descriptor = os.memfd_create("slab", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, size)
    return descriptor


def test_a_slab_is_locked_from_when_it_is_shown_until_it_is_forgotten() -> None:
    cuda = Cuda()
    views = SlabViews(collections.deque(), Pinning(cuda))
    views.add(1, slab(8192))
    views.add(2, slab(4096))
    assert sorted(cuda.locked.values()) == [4096, 8192]
    payload = views.payload(1, 10)
    assert payload.ctypes.data in cuda.locked
    views.forget(2)
    assert list(cuda.locked.values()) == [8192]


def test_a_slab_is_free_when_the_copies_that_were_begun_are_over() -> None:
    cuda = Cuda()
    pinning = Pinning(cuda)
    assert pinning.copied([1, 2]) == []
    assert pinning.copied([3]) == []
    cuda.finished = {0}
    assert pinning.copied([]) == [1, 2]
    assert pinning.copied([]) == []
    cuda.finished = {0, 1}
    assert pinning.copied([]) == [3]
    assert cuda.events == 2  # nothing is asked of CUDA when nothing was released


def test_memory_that_cannot_be_locked_is_reported() -> None:
    cuda = Cuda()
    cuda.error = 2
    with pytest.raises(DataError, match=r"could not lock 1 MiB .*error 2.*prefetch_bytes"):
        SlabViews(collections.deque(), Pinning(cuda)).add(1, slab(1 << 20))


def test_without_torch_there_is_nothing_to_pin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert open_pinning(False) is None
    with pytest.raises(DataError, match="is for tensors"):
        open_pinning(True)


def test_without_cuda_a_warning_reports_that_nothing_is_pinned() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("this machine has CUDA")
    with pytest.warns(UserWarning, match="this host has no CUDA"):
        assert open_pinning(True) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_pinning(False) is None
