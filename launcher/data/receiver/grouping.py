"""Choose how many fast batches a rank is shown at once, by measuring what costs least.

Each time a rank wakes, it finds little of what it needs in the caches, and so does the receiver
afterwards. But the more batches are shown at once, the more slabs are in use, and the fewer of them
are still in the caches when they are refilled. The optimum differs between machines, and between a
script that holds one batch and one that holds four.
"""

from __future__ import annotations

import time
from collections.abc import Callable

#: Maximum number of batches shown at once.
TOGETHER = 12
#: Bytes shown to a rank at once at the lowest level (but at least one batch). The levels above show
#: two, four and eight times as many batches. For batches of 4.8 MB, two at once were measured to
#: take 0.93x the processor time of one at once, and 0.83x that of twelve.
FEWEST = 6 << 20
#: Initial level.
FIRST_LEVEL = 1
#: Processor seconds that a rank needs to wake (measured).
WAKING = 1e-4
#: Batches before the first try, while slabs are still being created.
FIRST = 200
#: Batches per try at each of the two compared levels, and the number of tries at each.
TRY, TRIES = 32, 3
#: Batches shown at the kept level before the next comparison, because the script may have changed.
#: The next level tried is on the other side, or further on in the direction that proved cheaper.
LASTING = 3_000
#: Fraction by which another level must be cheaper to replace the kept one. The cheapest of three
#: tries of one level was seen to vary by this much, and waking a rank half as often saves little
#: more. Compared with 3 %, batches of 4.8 MB took 0.985x the time at 2 % (0.987x with four batches
#: held), and 0.991x at 1 % (1.029x).
CLEARLY = 0.02


def at_once(size: int, level: int) -> int:
    """Return how many batches of a size are shown at once at a level."""
    return min(TOGETHER, max(1, FEWEST // size) << level)


def highest_level(size: int) -> int:
    """Return the lowest level at which the number of batches shown at once is at its maximum."""
    level = 0
    while at_once(size, level) < TOGETHER:
        level += 1
    return level


class Grouping:
    """Keeps a level for a while, then compares it with an adjacent one. Not thread-safe.

    clock: processor seconds that the receiver has used so far.
    """

    def __init__(self, clock: Callable[[], float] = time.process_time) -> None:
        self._clock = clock
        self._kept = FIRST_LEVEL
        self._step = 1  # direction of the level to try next
        self._costs: dict[int, list[float]] = {}  # by level, seconds per byte of each try
        self._begin(FIRST_LEVEL, batches=FIRST)

    def has_room(self, count: int, size: int) -> bool:
        """Return True if one more batch of a size can be shown with `count` others."""
        return count < at_once(size, self._level)

    def record_wake(self) -> None:
        """Record that a rank was shown something."""
        self._wakes += 1

    def arrived(self, size: int, *, is_quick: bool) -> None:
        """Record that a batch has arrived."""
        self._bytes += size
        # If all levels show the same number, there is nothing to compare.
        if is_quick and at_once(size, 0) < TOGETHER:
            self._left -= 1
            if self._left == 0:
                self._judge(size)

    def _judge(self, size: int) -> None:
        """End the current period: start the next try, or keep the cheaper level."""
        if self._costs:
            cost = (self._clock() - self._began + WAKING * self._wakes) / self._bytes
            self._costs[self._level].append(cost)
        else:
            self._compare(highest_level(size))
        (kept, of_kept), (other, of_other) = self._costs.items()
        if len(of_other) < TRIES:
            self._begin(other if len(of_other) < len(of_kept) else kept, batches=TRY)
            return
        if min(of_other) < (1 - CLEARLY) * min(of_kept):  # noise only adds cost
            self._kept = other
        else:
            self._step = -self._step
        self._costs = {}
        self._begin(self._kept, batches=LASTING)

    def _compare(self, highest: int) -> None:
        """Start to compare the kept level, capped at `highest`, with an adjacent one."""
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
