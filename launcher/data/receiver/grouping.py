"""How many quick batches a rank is shown at once: whichever way costs less, as was tried."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

#: Batches that are shown at once, at most: whenever a rank wakes, it finds little of what it needs
#: in the caches, and the receiver afterwards.
TOGETHER = 12
#: Bytes of them, one way: so few that the slabs, of which two or three times as many go round, are
#: in the caches when they are filled again. Whether that outweighs the waking depends on both.
CACHED = 6 << 20
#: Processor seconds that a rank takes to wake.
WAKING = 1e-4
#: Batches until both ways are tried, as slabs are made first; batches that are shown one way before
#: the other is tried; how often each is; and batches until both are tried again.
FIRST, TRY, TRIES, LASTING = 200, 48, 4, 20_000


class Grouping:
    """Tries both ways by turns, and keeps the cheaper one for a while. Not safe for threads.

    clock: processor seconds of the receiver, so far.
    """

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self._clock = clock
        self._spent: tuple[list[float], list[float]] = ([], [])  # seconds per byte, each way
        self._is_settled = True
        self._begin(is_cached=False, batches=FIRST)

    def has_room(self, count: int, size: int) -> bool:
        """Whether one more batch of a size can be shown with so many others."""
        return count < TOGETHER and not (self._is_cached and (count + 1) * size > CACHED)

    def woke(self) -> None:
        """A rank was shown something."""
        self._wakes += 1

    def came(self, size: int) -> None:
        """A quick batch has come."""
        self._bytes += size
        self._left -= 1
        if self._left == 0:
            self._judge()

    def _judge(self) -> None:
        if self._is_settled:
            self._spent = ([], [])
        else:
            seconds = self._clock() - self._began + WAKING * self._wakes
            self._spent[self._is_cached].append(seconds / self._bytes)
        many, cached = self._spent
        self._is_settled = len(cached) == TRIES
        if self._is_settled:
            is_cheaper = statistics.median(cached) < statistics.median(many)
            self._begin(is_cached=is_cheaper, batches=LASTING)
        else:
            self._begin(is_cached=len(cached) < len(many), batches=TRY)

    def _begin(self, *, is_cached: bool, batches: int) -> None:
        self._is_cached = is_cached
        self._left = batches
        self._bytes = 0
        self._wakes = 0
        self._began = self._clock()
