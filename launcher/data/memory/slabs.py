"""Shared memory for batches: filled by the receiver, looked at by the ranks without a copy.

A slab is a memfd: it has no name, so nothing is left behind after a kill -9, and it is not bound
by the size of /dev/shm. Slabs are used again, the latest first: fresh memory for every batch of
38 MB, in small pages, was measured to cost 3.5x the rate.

The last byte of a slab is a mark by which a rank says that it has taken the batch, and that it
gives the slab back. The receiver looks at it when it needs a slab or shows batches, and says in the
byte before what it has seen; a message would wake a thread for each batch, which fights the one
that receives. A batch that a fork of the rank may look at, for as long as that likes, is marked as
well: its slab is not used again.
"""

from __future__ import annotations

import collections
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import ref

import numpy as np
import numpy.typing as npt

from launcher.data.memory.mapping import make_huge, map_shared
from launcher.data.memory.pinning import Pinning

_KIB_64 = 64 * 1024
_MIB = 1 << 20
#: A slab that is a quarter larger than need be is better than a new one.
_WASTE = 4
#: Marks: none yet, and bits of whoever was lent the slab: its script has the batch, and nobody
#: looks at it any more; or a fork of it may.
LENT, TAKEN, RETURNED, FORKED = 0, 1, 2, 4
#: Where the mark is, and the mark as the receiver has seen it.
MARK, SEEN = -1, -2
_MARK_BYTES = 2


def rounded(size: int) -> int:
    """The size of the slab for a payload and marks: whole 64 KiB up to 1 MiB, then whole MiB."""
    unit = _KIB_64 if size < _MIB else _MIB
    return ((size + _MARK_BYTES - 1) // unit + 1) * unit


@dataclass(frozen=True, eq=False)
class Slab:
    """One piece of shared memory, in the receiver."""

    number: int
    descriptor: int
    memory: memoryview
    size: int


class SlabPool:
    """Slabs that are free to be filled. Safe for threads.

    keep_bytes: of free slabs; beyond them, the longest unused are retired.
    retire: called with a slab before its memory goes.
    """

    def __init__(self, keep_bytes: int, retire: Callable[[Slab], None]) -> None:
        self._keep_bytes = keep_bytes
        self._retire = retire
        self._lock = threading.Lock()
        self._free: dict[int, Slab] = {}  # by number, the latest given last
        self._free_bytes = 0
        self._all_bytes = 0
        self._made = 0
        #: Bytes of slabs that were taken at the same time, at most.
        self.most_used_bytes = 0

    def take(self, size: int) -> Slab:
        """A slab of at least `size` bytes, and not many more. Raises OSError."""
        least = rounded(size)
        most = least + least // _WASTE
        with self._lock:
            for slab in reversed(self._free.values()):
                if least <= slab.size <= most:
                    del self._free[slab.number]
                    self._free_bytes -= slab.size
                    self.most_used_bytes = max(self.most_used_bytes, self.used_bytes)
                    return slab
            # What is free has not the size that is wanted now.
            self._shrink(self._free_bytes + self._keep_bytes - self._all_bytes - least)
            self._made += 1
            self._all_bytes += least
            self.most_used_bytes = max(self.most_used_bytes, self.used_bytes)
            number = self._made
        return self._make(number, least)

    def give(self, slab: Slab) -> None:
        """Nobody looks at the slab any more, but for a fork that may."""
        with self._lock:
            if slab.memory[MARK] & FORKED:
                self._drop(slab)
                return
            self._free[slab.number] = slab
            self._free_bytes += slab.size
            if self._free_bytes > self._keep_bytes:
                self._shrink(max(self._keep_bytes, 2 * slab.size))

    @property
    def used_bytes(self) -> int:
        """Of slabs that are taken."""
        return self._all_bytes - self._free_bytes

    def _shrink(self, free_bytes: int) -> None:
        """Retire free slabs until no more than this is free."""
        while self._free and self._free_bytes > free_bytes:
            oldest = self._free.pop(next(iter(self._free)))
            self._free_bytes -= oldest.size
            self._drop(oldest)

    def _drop(self, slab: Slab) -> None:
        self._all_bytes -= slab.size
        self._retire(slab)
        slab.memory.release()
        os.close(slab.descriptor)

    def _make(self, number: int, capacity: int) -> Slab:
        descriptor = None
        try:
            descriptor = os.memfd_create(f"launcher-slab-{number}", os.MFD_CLOEXEC)
            os.ftruncate(descriptor, capacity)
            memory = map_shared(descriptor, capacity)
            make_huge(memory)
            return Slab(number, descriptor, memory, capacity)
        except OSError:
            if descriptor is not None:
                os.close(descriptor)
            with self._lock:
                self._all_bytes -= capacity
            raise


class SlabViews:
    """The slabs that a rank has been shown.

    released: is given a slab's number when the last array over it is gone; that may be in a
    destructor at any moment. owner: lives as long as any array.
    """

    def __init__(
        self, released: collections.deque[int], pinning: Pinning | None = None, owner: Any = None
    ) -> None:
        self.released = released
        self._pinning = pinning
        self._owner = owner
        self._memory: dict[int, memoryview] = {}

    def add(self, number: int, descriptor: int) -> None:
        """Map a slab; takes over the descriptor."""
        try:
            size = os.fstat(descriptor).st_size
            self._memory[number] = map_shared(descriptor, size)
        finally:
            os.close(descriptor)
        if self._pinning is not None:
            self._pinning.register(self._memory[number])

    def take(self, number: int) -> None:
        """Mark a slab: the script has its batch."""
        self._memory[number][MARK] = TAKEN

    def give_back(self, number: int) -> None:
        """Mark a slab: nobody here looks at it any more."""
        self._memory[number][MARK] |= RETURNED

    def share(self, number: int) -> None:
        """Mark a slab: a fork of this process may look at it."""
        self._memory[number][MARK] |= FORKED

    def is_seen(self, number: int) -> bool:
        """Whether the receiver knows that the script has the batch; False when in doubt."""
        memory = self._memory.get(number)
        return memory is not None and bool(memory[SEEN] & TAKEN)

    def forget(self, number: int) -> None:
        """A slab will not be shown again."""
        memory = self._memory.pop(number, None)
        if memory is not None and self._pinning is not None:
            self._pinning.unregister(memory)

    def payload(self, number: int, size: int) -> npt.NDArray[np.uint8]:
        """The first `size` bytes of a slab; all arrays made from it keep the slab alive."""
        # numpy lets every view of a view refer to this one array, whose end is then the end of all.
        whole = np.frombuffer(self._memory[number], np.uint8, size)
        loan = _Loan(whole, _end)
        loan.number, loan.views = number, self
        _loans[id(loan)] = loan
        return whole


class _Loan(ref[Any]):
    """The arrays over a slab: as long as they live, so do the views.

    weakref.finalize does the same, and was measured to take three times as long.
    """

    __slots__ = ("number", "views")

    number: int
    views: SlabViews


def _end(loan: _Loan) -> None:
    del _loans[id(loan)]
    loan.views.released.append(loan.number)


#: By their ids: a reference to an array has no hash.
_loans: dict[int, _Loan] = {}


def _share_with_fork() -> None:
    for loan in list(_loans.values()):
        loan.views.share(loan.number)


os.register_at_fork(before=_share_with_fork)
