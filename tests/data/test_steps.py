"""Sets of steps as ranges: what Python's own sets say, in little room."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from launcher.data.order import StepSet

numbers = st.lists(st.integers(0, 40))


@given(numbers)
def test_a_step_set_is_a_set(steps: list[int]) -> None:
    mine, plain = StepSet(), set()
    for step in steps:
        assert mine.add(step) == (step not in plain)
        plain.add(step)
        assert len(mine) == len(plain)
    assert [step for step in range(-1, 42) if step in mine] == sorted(plain)


@given(numbers, st.integers(0, 50))
def test_what_is_missing(steps: list[int], stop: int) -> None:
    mine = StepSet()
    for step in steps:
        mine.add(step)
    assert list(mine.missing(stop)) == [step for step in range(stop) if step not in steps]


@given(numbers)
def test_ranges_never_touch_and_make_the_same_set_again(steps: list[int]) -> None:
    mine = StepSet()
    for step in steps:
        mine.add(step)
    edges = [edge for start_and_stop in mine.ranges for edge in start_and_stop]
    assert edges == sorted(set(edges))
    again = StepSet(mine.ranges)
    assert (again.ranges, len(again)) == (mine.ranges, len(mine))


def test_a_set_without_holes_is_one_range() -> None:
    mine = StepSet()
    for step in (3, 0, 2, 4, 1):
        mine.add(step)
    assert mine.ranges == ((0, 5),)
