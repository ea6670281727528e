"""Map shared memory in huge pages where the kernel provides them.

With huge pages, a slab of 39 MiB was measured to be created and first filled in 5 ms instead of 40,
and a stream of 5 MB batches to be received with 2 to 4 % less CPU time.
"""

from __future__ import annotations

import ctypes
import mmap
from pathlib import Path

import numpy as np

_HUGE_PAGE = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
_MAP_NORESERVE, _MAP_FIXED = 0x4000, 0x10
_MADV_COLLAPSE = 25  # since Linux 6.1; the mmap module offers neither this nor fixed addresses
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_LIBC.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def huge_page_bytes(source: Path = _HUGE_PAGE) -> int:
    """Return the size of a huge page; 0 if there are none."""
    try:
        return int(source.read_text())
    except (OSError, ValueError):
        return 0


_HUGE = huge_page_bytes()


def map_shared(descriptor: int, size: int) -> memoryview:
    """Map the first `size` bytes of a memfd, readable and writable.

    The mapping lasts as long as anything refers to it. Its address is aligned so that the memory
    can be in huge pages. Raises OSError.
    """
    if not 0 < _HUGE <= size:
        return memoryview(mmap.mmap(descriptor, size))
    # Python cannot map at a given address, so this mapping is placed over a reserved region that
    # Python has mapped, and is unmapped with it.
    reserved = mmap.mmap(-1, size + _HUGE, mmap.MAP_PRIVATE | _MAP_NORESERVE)
    start = -address_of(reserved) % _HUGE
    address, access = address_of(reserved) + start, mmap.PROT_READ | mmap.PROT_WRITE
    if _LIBC.mmap(address, size, access, mmap.MAP_SHARED | _MAP_FIXED, descriptor, 0) != address:
        raise OSError(ctypes.get_errno(), f"{size} bytes of shared memory cannot be mapped")
    return memoryview(reserved)[start : start + size]


def make_huge(memory: memoryview) -> None:
    """Allocate a new slab's memory at once in huge pages, if there are any, else on demand."""
    if not 0 < _HUGE <= len(memory):
        return
    for start in range(0, len(memory) - _HUGE + 1, _HUGE):
        memory[start] = 0  # madvise refuses empty pages
    _LIBC.madvise(address_of(memory), len(memory) // _HUGE * _HUGE, _MADV_COLLAPSE)


def address_of(memory: memoryview | mmap.mmap) -> int:
    """Return the address at which the memory is mapped in this process."""
    return int(np.frombuffer(memory, np.uint8).ctypes.data)
