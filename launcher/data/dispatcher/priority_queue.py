"""A priority queue whose items can be moved. Pure."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

_Item = TypeVar("_Item", bound=Hashable)
#: Stale entries of moved items are removed once they exceed the valid ones by this many.
_CLUTTER = 64


class PriorityQueue(Generic[_Item]):
    """Items ordered by key, smallest first; items with equal keys keep their insertion order.

    Each operation takes O(log n), amortised.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, _Item]] = []
        self._entries: dict[_Item, int] = {}  # the number of each item's valid entry
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, item: _Item, key: object) -> None:
        """Insert an item, or move it to a new key."""
        number = next(self._numbers)
        self._entries[item] = number
        heapq.heappush(self._heap, (key, number, item))
        if len(self._heap) > 2 * len(self._entries) + _CLUTTER:
            self._heap = [entry for entry in self._heap if self._is_current(entry)]
            heapq.heapify(self._heap)

    def drop(self, item: _Item) -> None:
        """Remove an item if it is present."""
        self._entries.pop(item, None)

    def pop(self) -> _Item | None:
        """Remove and return the first item; None when empty."""
        while self._heap:
            entry = heapq.heappop(self._heap)
            if self._is_current(entry):
                del self._entries[entry[2]]
                return entry[2]
        return None

    @property
    def first_key(self) -> Any:
        """The key of the first item; None when empty."""
        while self._heap and not self._is_current(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def _is_current(self, entry: tuple[object, int, _Item]) -> bool:
        return self._entries.get(entry[2]) == entry[1]
