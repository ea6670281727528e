"""A priority queue whose items can move. Pure."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Hashable
from typing import Any, Generic, TypeVar

_Item = TypeVar("_Item", bound=Hashable)
#: Entries of items that have moved are swept out when they are this many more than the others.
_CLUTTER = 64


class Ranking(Generic[_Item]):
    """Items, the one with the smallest key first; equal keys in the order they came.

    Each operation takes O(log n), amortised.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, _Item]] = []
        self._entries: dict[_Item, int] = {}  # which entry of each item is the true one
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, item: _Item, key: Any) -> None:
        """Put an item in, or move it."""
        number = next(self._numbers)
        self._entries[item] = number
        heapq.heappush(self._heap, (key, number, item))
        if len(self._heap) > 2 * len(self._entries) + _CLUTTER:
            self._heap = [entry for entry in self._heap if self._is_true(entry)]
            heapq.heapify(self._heap)

    def drop(self, item: _Item) -> None:
        """Take an item out, if it is in."""
        self._entries.pop(item, None)

    def pop(self) -> _Item | None:
        """Take the first item out."""
        while self._heap:
            entry = heapq.heappop(self._heap)
            if self._is_true(entry):
                del self._entries[entry[2]]
                return entry[2]
        return None

    def _is_true(self, entry: tuple[Any, int, _Item]) -> bool:
        return self._entries.get(entry[2]) == entry[1]
