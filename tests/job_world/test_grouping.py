"""How many batches are shown at once: as many as cost least when they were tried."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from launcher.data.receiver.grouping import (
    CLEARLY,
    FEWEST,
    FIRST,
    FIRST_LEVEL,
    LASTING,
    TOGETHER,
    TRIES,
    TRY,
    WAKING,
    Grouping,
    at_once,
    highest_level,
)

LARGE = FEWEST // 2 + 1  # one is shown at once, where fewest are
SMALL = FEWEST // TOGETHER
TRYING = 2 * TRIES * TRY
AT_FIRST = at_once(LARGE, FIRST_LEVEL)
COUNTS = [at_once(LARGE, level) for level in range(highest_level(LARGE) + 1)]
#: Batches after which every level has been reached from any other.
LONG = len(COUNTS) * 2 * (LASTING + TRYING + TOGETHER)


class Receiver:
    """Shows batches of a size as a grouping allows. cost: seconds for each, by how many at once.

    is_quick_at_first: so is the first of some, after those that were shown before it.
    """

    def __init__(self, size: int, cost: Callable[[int], float]) -> None:
        self._now = SimpleNamespace(seconds=0.0)
        self.grouping = Grouping(lambda: self._now.seconds)
        self.size, self.cost = size, cost
        self.is_quick_at_first = True
        self._held = 0

    @property
    def at_once(self) -> int:
        counts = range(TOGETHER)
        return next((n for n in counts if not self.grouping.has_room(n, self.size)), TOGETHER)

    def take(self, count: int) -> list[int]:
        """So many batches come; how many were shown at once, each time."""
        shown = []
        for _ in range(count):
            self._held += 1
            self._now.seconds += self.cost(self.at_once)
            is_quick = self.is_quick_at_first or self._held > 1 or self.at_once == 1
            self.grouping.arrived(self.size, is_quick=is_quick)
            if not self.grouping.has_room(self._held, self.size):
                self.grouping.record_wake()
                shown.append(self._held)
                self._held = 0
        return shown

    def settle(self) -> int:
        """How many are shown at once after long: by far the most often."""
        self.take(LONG)
        shown = self.take(LASTING)
        return max(set(shown), key=shown.count)


def distance(count: int, best: int) -> int:
    return abs(COUNTS.index(count) - COUNTS.index(best))


def test_levels_double_what_is_shown_at_once_up_to_a_dozen() -> None:
    assert COUNTS == [1, 2, 4, 8, 12]
    assert at_once(FEWEST // 3, 0) == 3
    assert at_once(10 * FEWEST, 0) == 1
    assert highest_level(SMALL) == 0


def test_at_first_the_level_stays_and_then_the_one_beside_it_is_tried() -> None:
    receiver = Receiver(LARGE, lambda _: 1.0)
    assert set(receiver.take(FIRST - TOGETHER)) == {AT_FIRST}
    assert set(receiver.take(TRYING)) >= {AT_FIRST, 2 * AT_FIRST}


@pytest.mark.parametrize("best", COUNTS)
def test_the_cheapest_is_found_and_lasts(best: int) -> None:
    receiver = Receiver(LARGE, lambda count: 1.0 + 0.1 * distance(count, best))
    assert receiver.settle() == best


def test_what_is_cheapest_is_found_again_when_it_changes() -> None:
    receiver = Receiver(LARGE, lambda count: 1.0 + 0.1 * distance(count, 1))
    assert receiver.settle() == 1
    receiver.cost = lambda count: 1.0 + 0.1 * distance(count, TOGETHER)
    assert receiver.settle() == TOGETHER


@pytest.mark.parametrize(("seconds", "at_once"), [(0.1 * WAKING, TOGETHER), (1e6 * WAKING, 1)])
def test_a_rank_that_wakes_costs_as_well(seconds: float, at_once: int) -> None:
    """Where it costs more than what is saved by showing fewer, many are shown."""
    receiver = Receiver(LARGE, lambda count: seconds * (1.0 + 0.1 * distance(count, 1)))
    assert receiver.settle() == at_once


def test_where_caches_make_no_difference_a_rank_is_woken_rarely() -> None:
    """As on a processor whose caches hold neither two batches of 4.8 MB nor twelve."""
    receiver = Receiver(LARGE, lambda _: 7 * WAKING)
    assert receiver.settle() == 4  # eight would save less than is clear


@pytest.mark.parametrize("other", [FIRST_LEVEL - 1, FIRST_LEVEL + 1])
def test_a_level_gives_way_only_to_one_that_is_clearly_cheaper(other: int) -> None:
    cheaper, costs = at_once(LARGE, other), dict.fromkeys(COUNTS, 1.0)
    receiver = Receiver(LARGE, costs.__getitem__)
    costs[cheaper] = 1.0 - CLEARLY / 2
    assert receiver.settle() == AT_FIRST
    costs[cheaper] = 1.0 - 2 * CLEARLY
    assert receiver.settle() == cheaper


def test_a_try_that_was_disturbed_decides_nothing() -> None:
    costs = dict.fromkeys(COUNTS, 1.0)
    costs[2 * AT_FIRST] = 0.5
    receiver = Receiver(LARGE, costs.__getitem__)
    receiver.take(FIRST + TRY)
    costs[2 * AT_FIRST] = 100.0
    receiver.take(TRY)
    costs[2 * AT_FIRST] = 0.5
    receiver.take(TRYING - 2 * TRY + TOGETHER)
    assert set(receiver.take(LASTING - 3 * TOGETHER)) == {2 * AT_FIRST}


def test_where_all_levels_are_one_nothing_is_tried() -> None:
    receiver = Receiver(SMALL, lambda _: 1.0)
    assert set(receiver.take(32 * TOGETHER)) == {TOGETHER}
    receiver.size = LARGE
    assert set(receiver.take(FIRST - 2 * TOGETHER)) == {AT_FIRST}


def test_batches_of_another_size_are_shown_at_the_levels_that_they_have() -> None:
    receiver = Receiver(LARGE, lambda count: 1.0 + 0.1 * distance(count, TOGETHER))
    assert receiver.settle() == TOGETHER
    receiver.size = FEWEST // 4
    receiver.cost = lambda count: {4: 0.8, 8: 0.9, TOGETHER: 1.0}[count]
    assert receiver.settle() == 4


def test_batches_that_are_not_quick_count_in_what_a_try_costs() -> None:
    receiver = Receiver(LARGE, lambda count: 1.0 + 0.1 * distance(count, AT_FIRST))
    receiver.is_quick_at_first = False  # that is every other one, where two are shown at once
    assert receiver.settle() == AT_FIRST
