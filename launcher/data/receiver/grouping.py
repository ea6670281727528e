"""How many quick batches a rank is shown at once: as many as cost least, as was tried.

Whenever a rank wakes, it finds little of what it needs in the caches, and so does the receiver
afterwards; but the more batches are shown at once, the more slabs go round, and the fewer of them
are still in the caches when they are filled again. Where the least lies differs between machines,
and between a script that holds one batch and one that holds four.
"""

from __future__ import annotations

import time
from collections.abc import Callable

#: Batches that are shown at once, at most.
TOGETHER = 12
#: Bytes for one rank that are shown at once where fewest are, one batch at least; the levels above
#: show twice, four times and eight times as many batches. Of batches of 4.8 MB, two at once were
#: measured to take 0.93x of the processor time of one at once, and 0.83x of that of twelve.
FEWEST = 6 << 20
#: The level at first.
FIRST_LEVEL = 1
#: Processor seconds that it costs a rank to wake, as was measured.
WAKING = 1e-4
#: Batches before the first try, while slabs are made.
FIRST = 200
#: Batches that are shown at one level, and then as many at the one beside it; and how often.
TRY, TRIES = 32, 3
#: Batches that are shown at the level that was kept, until the one on its other side is tried, or
#: the next one where that was the cheaper: the script may have changed.
LASTING = 3_000
#: The share by which another level must be cheaper to be kept. The cheapest of three tries of one
#: level was seen to differ by as much from one time to the next; waking a rank half as often saves
#: little more. Against 3 %, batches of 4.8 MB took 0.985x by it, and 0.987x with four held; by 1 %
#: 0.991x and 1.029x.
CLEARLY = 0.02


def at_once(size: int, level: int) -> int:
    """How many batches of a size are shown at once at a level."""
    return min(TOGETHER, max(1, FEWEST // size) << level)


def highest_level(size: int) -> int:
    """The first level at which as many batches of a size are shown at once as at any."""
    level = 0
    while at_once(size, level) < TOGETHER:
        level += 1
    return level


class Grouping:
    """Keeps a level for a while, then tries one beside it by turns. Not safe for threads.

    clock: processor seconds of the receiver, so far.
    """

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self._clock = clock
        self._kept = FIRST_LEVEL
        self._step = 1  # to the level that is tried next
        self._costs: dict[int, list[float]] = {}  # seconds per byte, by level; of each try
        self._begin(FIRST_LEVEL, batches=FIRST)

    def has_room(self, count: int, size: int) -> bool:
        """Whether one more batch of a size can be shown with so many others."""
        return count < at_once(size, self._level)

    def woke(self) -> None:
        """A rank was shown something."""
        self._wakes += 1

    def came(self, size: int, *, is_quick: bool) -> None:
        """A batch has come."""
        self._bytes += size
        # Where all levels are one, there is nothing to be tried.
        if is_quick and at_once(size, 0) < TOGETHER:
            self._left -= 1
            if self._left == 0:
                self._judge(size)

    def _judge(self, size: int) -> None:
        """What was to come at a level has come: go on to the next try, or keep the cheaper one."""
        if self._costs:
            cost = (self._clock() - self._began + WAKING * self._wakes) / self._bytes
            self._costs[self._level].append(cost)
        else:
            self._compare(highest_level(size))
        (kept, of_kept), (other, of_other) = self._costs.items()
        if len(of_other) < TRIES:
            self._begin(other if len(of_other) < len(of_kept) else kept, batches=TRY)
            return
        if min(of_other) < (1 - CLEARLY) * min(of_kept):  # whatever disturbs a try makes it dearer
            self._kept = other
        else:
            self._step = -self._step
        self._costs = {}
        self._begin(self._kept, batches=LASTING)

    def _compare(self, highest: int) -> None:
        """From now on, compare the level that is kept, one of those that differ, with the next."""
        self._kept = min(self._kept, highest)
        if not 0 <= self._kept + self._step <= highest:
            self._step = -self._step
        self._costs = {self._kept: [], self._kept + self._step: []}

    def _begin(self, level: int, *, batches: int) -> None:
        self._level = level
        self._left = batches
        self._bytes = 0
        self._wakes = 0
        self._began = self._clock()
