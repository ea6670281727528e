"""Which way of showing batches is kept: the one that cost less when both were tried."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from launcher.data.receiver.grouping import (
    CLEARLY,
    FEW,
    FIRST,
    LASTING,
    TOGETHER,
    TRIES,
    TRY,
    WAKING,
    Grouping,
)

LARGE = FEW // 2 + 1
SMALL = FEW // TOGETHER
TRYING = 2 * TRIES * TRY


class Receiver:
    """Shows batches of a size as a grouping allows. many, few: seconds for each, each way.

    is_quick_at_first: so is the first of many, after those that were shown before it.
    """

    def __init__(self, size: int, many: float, few: float) -> None:
        self._now = SimpleNamespace(seconds=0.0)
        self.grouping = Grouping(lambda: self._now.seconds)
        self.size, self.many, self.few = size, many, few
        self.is_quick_at_first = True
        self._held = 0

    def take(self, count: int) -> list[int]:
        """So many batches come; how many were shown at once, each time."""
        shown = []
        for _ in range(count):
            self._held += 1
            shows_few = not self.grouping.has_room(TOGETHER - 1, self.size)
            self._now.seconds += self.few if shows_few else self.many
            is_quick = self.is_quick_at_first or self._held > 1 or shows_few
            self.grouping.came(self.size, is_quick=is_quick)
            if not self.grouping.has_room(self._held, self.size):
                self.grouping.woke()
                shown.append(self._held)
                self._held = 0
        return shown


def test_many_are_shown_at_once_until_both_ways_are_tried() -> None:
    receiver = Receiver(LARGE, many=1.0, few=1.0)
    assert set(receiver.take(FIRST - 8)) == {TOGETHER}
    assert set(receiver.take(TRYING)) >= {1, TOGETHER}


@pytest.mark.parametrize(
    ("many", "few", "at_once"),
    [
        (1.0, 0.5, 1),
        (1.0, 1.5, TOGETHER),
        (0.1 * WAKING, 0.05 * WAKING, TOGETHER),  # each wakes a rank
        (3.0 * WAKING, 1.0 * WAKING, 1),
    ],
)
def test_the_cheaper_way_lasts(many: float, few: float, at_once: int) -> None:
    receiver = Receiver(LARGE, many, few)
    receiver.take(FIRST + TRYING)
    receiver.take(TOGETHER)
    assert set(receiver.take(LASTING - 3 * TOGETHER)) == {at_once}


def test_both_are_tried_again_when_it_has_lasted() -> None:
    receiver = Receiver(LARGE, many=1.0, few=0.5)
    receiver.take(FIRST + TRYING)
    receiver.many = 0.1
    receiver.take(LASTING + TRYING + TOGETHER)
    assert set(receiver.take(LASTING - 3 * TOGETHER)) == {TOGETHER}


@pytest.mark.parametrize("at_first", [0.5, 1.5])
def test_a_way_that_lasts_gives_way_only_to_one_that_is_clearly_cheaper(at_first: float) -> None:
    receiver = Receiver(LARGE, many=1.0, few=at_first)
    receiver.take(FIRST + TRYING)
    receiver.few = 1.0 + CLEARLY / 2 if at_first < 1 else 1.0 - CLEARLY / 2
    receiver.take(LASTING + TRYING + TOGETHER)
    assert set(receiver.take(LASTING - 3 * TOGETHER)) == {1 if at_first < 1 else TOGETHER}
    receiver.few = 1.0 + 2 * CLEARLY if at_first < 1 else 1.0 - 2 * CLEARLY
    receiver.take(2 * TOGETHER + TRYING + TOGETHER)
    assert set(receiver.take(LASTING - 3 * TOGETHER)) == {TOGETHER if at_first < 1 else 1}


def test_a_try_that_was_disturbed_decides_nothing() -> None:
    receiver = Receiver(LARGE, many=1.0, few=0.5)
    receiver.take(FIRST + TRY)
    receiver.few = 100.0
    receiver.take(TRY)
    receiver.few = 0.5
    receiver.take(TRYING - 2 * TRY + TOGETHER)
    assert set(receiver.take(LASTING - 3 * TOGETHER)) == {1}


def test_small_batches_are_shown_so_that_they_fit() -> None:
    size = FEW // 4
    receiver = Receiver(size, many=1.0, few=0.5)
    receiver.take(FIRST + TRYING + TOGETHER)
    assert set(receiver.take(LASTING - 3 * TOGETHER)) == {4}


def test_where_both_ways_are_one_nothing_is_tried() -> None:
    receiver = Receiver(SMALL, many=1.0, few=0.5)
    receiver.take(FIRST + TRYING)
    receiver.size = LARGE
    assert set(receiver.take(FIRST - TOGETHER)) == {TOGETHER}


def test_batches_that_are_not_quick_count_in_what_a_try_costs() -> None:
    receiver = Receiver(LARGE, many=1.0, few=1.05)
    receiver.is_quick_at_first = False  # that is one in twelve of the many
    receiver.take(2 * FIRST + 2 * TRYING)
    assert set(receiver.take(LASTING // 2)) == {TOGETHER}
