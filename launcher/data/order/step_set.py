"""Sets of whole numbers that arrive nearly in order, stored as a few ranges."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

#: (start, stop) with start < stop.
Range = tuple[int, int]


class StepSet:
    """Steps that are done; takes a few bytes however many there are, if there are few holes."""

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._ranges = sorted(ranges)
        self._count = sum(stop - start for start, stop in self._ranges)

    @property
    def ranges(self) -> tuple[Range, ...]:
        """The steps as ranges, in order."""
        return tuple(self._ranges)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, step: int) -> bool:
        at = self._at(step)
        return at >= 0 and step < self._ranges[at][1]

    def add(self, step: int) -> bool:
        """Add a step; returns False if it was already in the set."""
        at = self._at(step)
        if at >= 0 and step < self._ranges[at][1]:
            return False
        at += 1
        start, stop = step, step + 1
        if at < len(self._ranges) and self._ranges[at][0] == stop:
            stop = self._ranges.pop(at)[1]
        if at > 0 and self._ranges[at - 1][1] == start:
            at -= 1
            start = self._ranges.pop(at)[0]
        self._ranges.insert(at, (start, stop))
        self._count += 1
        return True

    def missing(self, stop: int) -> Iterator[int]:
        """Yield the steps below `stop` that are not done."""
        before = 0
        for start, end in self._ranges:
            yield from range(before, min(start, stop))
            before = end
        yield from range(before, stop)

    def _at(self, step: int) -> int:
        """Return the index of the last range that starts at or before a step."""
        return bisect_right(self._ranges, step, key=lambda entry: entry[0]) - 1
