"""How many quick batches a rank is shown at once: whichever way costs less, as was tried."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Batches that are shown at once, at most: whenever a rank wakes, it finds little of what it needs
#: in the caches, and the receiver afterwards.
TOGETHER = 12
#: Bytes for one rank that are shown at once where few are. Two or three times as many go round, and
#: may still be in the caches when their slabs are filled again: with 24 MiB of cache the processor
#: time of batches of 4.8 MB was measured to be 0.8x, and 1.04x when the script holds four of them.
FEW = 6 << 20
#: Processor seconds that it costs a rank to wake, as was measured.
WAKING = 1e-4
#: Batches before the first try, while slabs are made.
FIRST = 200
#: Batches that are shown one way, and then as many the other way; and how often that is done.
TRY, TRIES = 32, 3
#: Batches that are shown the cheaper way, until both are tried again: the script may have changed.
LASTING = 3_000
#: The share by which the other way must be cheaper to take its place: the cheapest of three tries
#: of one way was seen to differ by as much from one time to the next.
CLEARLY = 0.03


class Grouping:
    """Tries both ways by turns, and keeps the cheaper one for a while. Not safe for threads.

    clock: processor seconds of the receiver, so far.
    """

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self._clock = clock
        self._many: list[float] = []  # seconds per byte, of each try
        self._few: list[float] = []
        self._is_settled = True
        self._keeps_few = False
        self._begin(shows_few=False, batches=FIRST)

    def has_room(self, count: int, size: int) -> bool:
        """Whether one more batch of a size can be shown with so many others."""
        return count < TOGETHER and not (self._shows_few and (count + 1) * size > FEW)

    def woke(self) -> None:
        """A rank was shown something."""
        self._wakes += 1

    def came(self, size: int, *, is_quick: bool) -> None:
        """A batch has come."""
        self._bytes += size
        # Where twelve are no more bytes than few, there is nothing to be tried.
        if is_quick and TOGETHER * size > FEW:
            self._left -= 1
        if self._left == 0:
            self._judge()

    def _judge(self) -> None:
        if self._is_settled:
            self._many, self._few = [], []
        else:
            costs = self._few if self._shows_few else self._many
            costs.append((self._clock() - self._began + WAKING * self._wakes) / self._bytes)
        self._is_settled = len(self._few) == TRIES
        if self._is_settled:  # whatever disturbs a try makes it dearer
            bound = 1 + CLEARLY if self._keeps_few else 1 - CLEARLY
            self._keeps_few = min(self._few) < bound * min(self._many)
            self._begin(shows_few=self._keeps_few, batches=LASTING)
        else:
            self._begin(shows_few=len(self._few) < len(self._many), batches=TRY)

    def _begin(self, *, shows_few: bool, batches: int) -> None:
        self._shows_few = shows_few
        self._left = batches
        self._bytes = 0
        self._wakes = 0
        self._began = self._clock()
