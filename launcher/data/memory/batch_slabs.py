"""Memory in which workers collate large batches, again and again.

To allocate it anew for each batch was measured to cost six times the copy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

import numpy as np
import numpy.typing as npt

from launcher.data.batches import LARGE_BATCH, Array, Header, WireFrame, wire
from launcher.data.memory.slabs import LENT, MARK, RETURNED, SEEN, WASTE, Slab, SlabPool

_Memory = npt.NDArray[np.uint8]


class ReusedMemory:
    """Memory of this process, used again once no array over it is left. For use by one thread."""

    def __init__(self) -> None:
        self._uses: list[tuple[npt.NDArray[Any], ref[_Memory]]] = []

    def memory_for(self, size: int) -> _Memory:
        """Return memory for an array of `size` bytes; the free memory that has not its size goes.

        So what is free was in use at the same time before.
        """
        free = [whole for whole, memory in self._uses if memory() is None]
        fitting = next((each for each in free if size <= each.nbytes <= size + size // WASTE), None)
        if fitting is None:
            self._uses = [use for use in self._uses if use[1]() is not None]
            fitting = np.empty(size, np.uint8)
        else:
            self._uses = [use for use in self._uses if use[0] is not fitting]
        memory = np.frombuffer(fitting.data, np.uint8, size)  # the base of all its views
        self._uses.append((fitting, ref(memory)))
        return memory


@dataclass(eq=False)
class _Use:
    """One use of a slab, for one batch.

    memory: goes with the last array over it. arrays: sizes of what was made in it, by offset.
    """

    slab: Slab
    memory: ref[_Memory]
    arrays: dict[int, int] = field(default_factory=dict)
    used: int = 0

    @property
    def is_over(self) -> bool:
        """True if neither the script nor code of the dataset can read the slab any more."""
        return bool(self.slab.memory[MARK] & RETURNED) and self.memory() is None


class BatchSlabs:
    """The slabs of one worker. For use by one thread.

    retire: called with the number of a slab that will not be used again.

    A batch is collated in a slab as large as the batch before it took, so that it is not copied.
    """

    def __init__(self, retire: Callable[[int], None]) -> None:
        self._pool = SlabPool(0, lambda slab: retire(slab.number))
        self._uses: list[_Use] = []
        self._next: _Memory | None = None  # of the last use, for the batch that is prepared
        self._size = 0  # of the batch before

    def begin(self) -> None:
        """Take a slab for the next batch, if the one before it was large."""
        if self._next is None and self._size >= LARGE_BATCH:
            self._next = self._take(self._size)

    def memory_for(self, size: int) -> _Memory | None:
        """Return memory of the slab for an array of the next batch; None if there is no room."""
        if self._next is None:
            return None
        use = self._uses[-1]
        at = use.used + -use.used % wire.ALIGNMENT
        if at + size > len(self._next):
            return None
        use.arrays[at], use.used = size, at + size
        return self._next[at : use.used]

    def frame(
        self, run: str, step: int, tree: object, arrays: Sequence[Array]
    ) -> tuple[WireFrame, Slab | None]:
        """Return the frame of a batch, and the slab that holds its payload if it is large.

        The frame has no payload then, and names the slab instead of a worker. There is no slab for
        a batch that is small, or for which there is no memory to share.
        """
        frame, slab = None, None
        if self._next is not None:
            use = self._uses[-1]
            if sizes := wire.complete_in_place(self._next, use.arrays, use.used, tree, arrays):
                frame, slab = self._without_payload(run, step, use.slab, *sizes), use.slab
            else:
                use.slab.memory[MARK] = RETURNED  # too small
        if frame is None:
            frame = WireFrame.pack(run, step, "", tree, arrays)
            size, content = frame.header.payload_bytes, frame.header.content_bytes
            if size >= LARGE_BATCH and (memory := self._take(size)) is not None:
                frame.copy_to(memory)
                slab = self._uses[-1].slab
                frame = self._without_payload(run, step, slab, size, content)
        self._size, self._next = frame.header.payload_bytes, None
        return frame, slab

    @staticmethod
    def _without_payload(run: str, step: int, slab: Slab, size: int, content: int) -> WireFrame:
        slab.memory[MARK] = slab.memory[SEEN] = LENT
        worker = str(slab.number)
        return WireFrame(
            header=Header(
                run=run, step=step, worker=worker, payload_bytes=size, content_bytes=content
            ),
            buffers=(),
        )

    def _take(self, size: int) -> _Memory | None:
        """Return a slab's memory, which is another object for each use; None if there is none."""
        for use in [use for use in self._uses if use.is_over]:
            self._uses.remove(use)
            self._pool.release(use.slab)
        if not hasattr(os, "memfd_create"):  # not on Linux
            return None
        try:
            slab = self._pool.take(size)
        except OSError:
            return None
        memory = np.frombuffer(slab.memory[:SEEN], np.uint8)
        self._uses.append(_Use(slab, ref(memory)))
        slab.memory[MARK] = LENT
        return memory
