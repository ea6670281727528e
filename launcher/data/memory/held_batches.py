"""Batches that a framework holds after it was given them, which count towards the host's budget.

A training loop in torch drops each batch before it asks for the next. tf.data keeps several, in
its prefetch buffers and in tensors over the same memory, so a batch counts as consumed only when
it is released. A batch beyond the limit is copied, and its slab is free at once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from launcher.data.control import messages as m

#: Batches for which the limit leaves room: one that arrives and one that waits.
_SPARE = 2
#: TensorFlow takes arrays at multiples of this address without a copy.
_ALIGNMENT = 64


class HeldBatches:
    """The batches whose memory the script holds and that are not reported as consumed.

    limit: bytes of this rank's share of the train host's budget.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._batches: dict[int, m.Batch] = {}  # by slab
        self._bytes = 0
        self._begun: str | None = None  # the epoch read of the latest batch

    def __bool__(self) -> bool:
        return bool(self._batches)

    def begins(self, batch: m.Batch) -> bool:
        """Return True for the first batch of an epoch read, which is reported at once.

        The dispatcher sends a rank few batches until it has consumed one.
        """
        begins, self._begun = batch.run != self._begun, batch.run
        return begins

    def add(self, batch: m.Batch) -> bool:
        """Count a batch until it is released; return False if it must be copied instead."""
        if self._bytes + (1 + _SPARE) * batch.size > self._limit:
            return False
        self._batches[batch.slab] = batch
        self._bytes += batch.size
        return True

    def release(self, slab: int) -> m.Batch | None:
        """Return the batch of a slab that was released, if it was counted."""
        if batch := self._batches.pop(slab, None):
            self._bytes -= batch.size
        return batch

    def give_up(self) -> list[m.Batch]:
        """Return all batches, which are no longer counted, and hold fewer from now on.

        For a rank that gets no batch because those that it holds use up what it may have.
        """
        batches = list(self._batches.values())
        largest = max(batch.size for batch in batches)
        self._limit = max(0, self._bytes - _SPARE * largest)
        self._batches.clear()
        self._bytes = 0
        return batches


def aligned_copy(payload: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Copy a payload into this process's memory, aligned as frameworks need it."""
    memory = np.empty(payload.size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    copy = memory[start : start + payload.size]
    copy[:] = payload
    return copy
