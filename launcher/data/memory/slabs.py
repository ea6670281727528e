"""Shared memory for batches: filled by the receiver, read by the ranks without a copy.

A slab is a memfd. It has no name, so nothing is left behind after a kill -9, and the size of
/dev/shm does not limit it. Slabs are reused, the most recently freed first: fresh memory in small
pages for every batch of 38 MB was measured to cost 3.5x the rate.

The last byte of a slab is a mark with which a rank signals that it has consumed the batch, and that
it returns the slab. The receiver reads the mark when it needs a slab or delivers batches, and
writes the value it has read to the byte before. A message instead would wake a thread for each
batch, which would compete with the receiving thread. The mark also records that a fork of the rank
may read the batch, for an unknown time; such a slab is not reused.
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
from launcher.shared import slab_bytes

#: Reuse memory that is up to 1/WASTE larger than needed rather than allocate it.
WASTE = 4
#: Marks. LENT: none yet. The local peer sets the others, which are bits: TAKEN, its script has the
#: batch; RETURNED, it no longer reads the slab; FORKED, a fork of it may still read the slab.
LENT, TAKEN, RETURNED, FORKED = 0, 1, 2, 4
#: Index of the mark, and of the mark as the receiver has last seen it.
MARK, SEEN = -1, -2


@dataclass(frozen=True, eq=False)
class Slab:
    """One piece of shared memory, as the receiver holds it."""

    number: int
    descriptor: int
    memory: memoryview
    size: int


class SlabPool:
    """Free slabs that can be filled. Thread-safe.

    keep_bytes: bytes of free slabs to keep; beyond them, the least recently used are retired.
    retire: called with a slab before its memory is freed.
    """

    def __init__(self, keep_bytes: int, retire: Callable[[Slab], None]) -> None:
        self._keep_bytes = keep_bytes
        self._retire = retire
        self._lock = threading.Lock()
        self._free: dict[int, Slab] = {}  # by number, the most recently freed last
        self._free_bytes = 0
        self._all_bytes = 0
        self._made = 0
        #: Peak number of bytes of slabs taken at the same time.
        self.most_used_bytes = 0

    def take(self, size: int) -> Slab:
        """Return a slab of at least `size` bytes, at most a quarter larger than needed.

        Raises OSError.
        """
        least = slab_bytes(size)
        most = least + least // WASTE
        with self._lock:
            for slab in reversed(self._free.values()):
                if least <= slab.size <= most:
                    del self._free[slab.number]
                    self._free_bytes -= slab.size
                    self.most_used_bytes = max(self.most_used_bytes, self.used_bytes)
                    return slab
            # The free slabs do not have the size that is needed now.
            self._shrink(self._free_bytes + self._keep_bytes - self._all_bytes - least)
            self._made += 1
            self._all_bytes += least
            self.most_used_bytes = max(self.most_used_bytes, self.used_bytes)
            number = self._made
        return self._make(number, least)

    def release(self, slab: Slab) -> None:
        """Return a slab to the pool; one that a fork may still read is dropped instead."""
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
        """Bytes of the slabs that are taken."""
        return self._all_bytes - self._free_bytes

    def _shrink(self, free_bytes: int) -> None:
        """Retire free slabs until at most `free_bytes` bytes are free."""
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
    """The slabs whose descriptors this process has received.

    released: receives a slab's number when the last array over it is gone, possibly from a
    destructor at any moment. owner: kept alive as long as any array.
    """

    def __init__(
        self, released: collections.deque[int], pinning: Pinning | None = None, owner: object = None
    ) -> None:
        self.released = released
        self._pinning = pinning
        self._owner = owner
        self._memory: dict[int, memoryview] = {}

    def __contains__(self, number: int) -> bool:
        """Return whether a slab is mapped."""
        return number in self._memory

    def add(self, number: int, descriptor: int) -> None:
        """Map a slab; takes ownership of the descriptor."""
        try:
            size = os.fstat(descriptor).st_size
            self._memory[number] = map_shared(descriptor, size)
        finally:
            os.close(descriptor)
        if self._pinning is not None:
            self._pinning.register(self._memory[number])

    def take(self, number: int) -> None:
        """Mark that the script has the slab's batch."""
        self._memory[number][MARK] = TAKEN

    def give_back(self, number: int) -> None:
        """Mark that this process no longer reads the slab."""
        self._memory[number][MARK] |= RETURNED

    def share(self, number: int) -> None:
        """Mark that a fork of this process may read the slab."""
        self._memory[number][MARK] |= FORKED

    def is_seen(self, number: int) -> bool:
        """Return True if the receiver has seen that the script has the batch.

        Returns False when in doubt.
        """
        memory = self._memory.get(number)
        return memory is not None and bool(memory[SEEN] & TAKEN)

    def forget(self, number: int) -> None:
        """Unmap a slab that will not be used again."""
        memory = self._memory.pop(number, None)
        if memory is not None and self._pinning is not None:
            self._pinning.unregister(memory)

    def payload(self, number: int, size: int) -> npt.NDArray[np.uint8]:
        """Return the first `size` bytes of a slab; arrays made from them keep it alive."""
        # In numpy every view of a view refers to this one array, so its end is the end of them all.
        whole = np.frombuffer(self._memory[number], np.uint8, size)
        loan = _Loan(whole, _release_loan)
        loan.number, loan.views = number, self
        _loans[id(loan)] = loan
        return whole


class _Loan(ref[Any]):
    """Weak reference to the arrays over a slab, which keeps the views alive as long as they live.

    weakref.finalize does the same, and was measured to take three times as long.
    """

    __slots__ = ("number", "views")

    number: int
    views: SlabViews


def _release_loan(loan: _Loan) -> None:
    del _loans[id(loan)]
    loan.views.released.append(loan.number)


#: Keyed by id, because a reference to an array is not hashable.
_loans: dict[int, _Loan] = {}


def _share_with_fork() -> None:
    for loan in list(_loans.values()):
        loan.views.share(loan.number)


os.register_at_fork(before=_share_with_fork)
