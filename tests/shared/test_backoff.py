"""Pauses between attempts: they grow, they end in time, and there is always one attempt."""

from __future__ import annotations

import pytest

from launcher.shared import backoff


class Clock:
    """Time that passes only in pauses."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def attempts(clock: Clock, patience: float, longest: float = 2.0) -> list[float]:
    return list(
        backoff(
            first=0.5, longest=longest, timeout=patience, now=lambda: clock.now, sleep=clock.sleep
        )
    )


def test_pauses_grow_to_the_longest_and_half_of_each_is_random() -> None:
    clock = Clock()
    left = attempts(clock, patience=60.0)
    assert left[0] == 60.0
    assert left == sorted(left, reverse=True)
    limits = [0.5, 0.75, 1.125, 1.6875] + [2.0] * (len(clock.pauses) - 4)
    for pause, limit in zip(clock.pauses, limits, strict=True):
        assert limit / 2 <= pause <= limit
    assert len(set(clock.pauses)) > 4


def test_no_attempt_begins_after_the_deadline_and_the_last_pause_is_not_waited_for() -> None:
    clock = Clock()
    left = attempts(clock, patience=10.0)
    assert all(seconds >= 0 for seconds in left)
    assert clock.now <= 110.0
    assert len(clock.pauses) == len(left) - 1


@pytest.mark.parametrize("patience", [0.0, 0.1])
def test_there_is_one_attempt_however_short_the_time(patience: float) -> None:
    clock = Clock()
    assert len(attempts(clock, patience)) == 1
    assert clock.pauses == []
