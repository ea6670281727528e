"""Which way of showing batches is kept: the one that cost less when both were tried."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from launcher.data.receiver.grouping import (
    CACHED,
    FIRST,
    LASTING,
    TOGETHER,
    TRIES,
    TRY,
    WAKING,
    Grouping,
)

LARGE = CACHED // 2 + 1
TRYING = 2 * TRIES * TRY


class Receiver:
    """Shows batches of a size as a grouping allows. many, cached: seconds for each, each way."""

    def __init__(self, size: int, many: float, cached: float) -> None:
        self._now = SimpleNamespace(seconds=0.0)
        self.grouping = Grouping(lambda: self._now.seconds)
        self.size, self.many, self.cached = size, many, cached
        self._held = 0

    def take(self, count: int) -> list[int]:
        """So many batches come; how many were shown at once, each time."""
        shown = []
        for _ in range(count):
            self._held += 1
            is_cached = not self.grouping.has_room(TOGETHER - 1, self.size)
            self._now.seconds += self.cached if is_cached else self.many
            self.grouping.came(self.size)
            if not self.grouping.has_room(self._held, self.size):
                self.grouping.woke()
                shown.append(self._held)
                self._held = 0
        return shown


def test_many_are_shown_at_once_until_both_ways_are_tried() -> None:
    receiver = Receiver(LARGE, many=1.0, cached=1.0)
    assert set(receiver.take(FIRST - 8)) == {TOGETHER}
    assert set(receiver.take(TRYING)) > {1, TOGETHER}


@pytest.mark.parametrize(
    ("many", "cached", "at_once"),
    [
        (1.0, 0.5, 1),
        (1.0, 1.5, TOGETHER),
        (0.1 * WAKING, 0.05 * WAKING, TOGETHER),  # each wakes a rank
        (3.0 * WAKING, 1.0 * WAKING, 1),
    ],
)
def test_the_cheaper_way_lasts(many: float, cached: float, at_once: int) -> None:
    receiver = Receiver(LARGE, many, cached)
    receiver.take(FIRST + TRYING)
    receiver.take(TOGETHER)
    assert set(receiver.take(LASTING - 3 * TOGETHER)) == {at_once}


def test_both_are_tried_again_when_it_has_lasted() -> None:
    receiver = Receiver(LARGE, many=1.0, cached=0.5)
    receiver.take(FIRST + TRYING)
    receiver.many = 0.1
    receiver.take(LASTING + TRYING + TOGETHER)
    assert set(receiver.take(LASTING - 3 * TOGETHER)) == {TOGETHER}


def test_a_try_that_was_disturbed_decides_nothing() -> None:
    receiver = Receiver(LARGE, many=1.0, cached=0.5)
    receiver.take(FIRST + TRY)
    receiver.cached = 100.0
    receiver.take(TRY)
    receiver.cached = 0.5
    receiver.take(TRYING - 2 * TRY + TOGETHER)
    assert set(receiver.take(LASTING - 3 * TOGETHER)) == {1}


def test_small_batches_are_shown_so_that_they_fit() -> None:
    size = CACHED // 4
    receiver = Receiver(size, many=1.0, cached=0.5)
    receiver.take(FIRST + TRYING + TOGETHER)
    assert set(receiver.take(LASTING - 3 * TOGETHER)) == {4}
