"""Pauses between the attempts of a retry."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator

_GROWTH = 1.5
#: A private generator, since the user's code owns the global one and may use it in another thread.
_coin = random.Random()


def backoff(
    *,
    first: float,
    longest: float,
    patience: float = math.inf,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[float]:
    """Yield the seconds left before each attempt, at least once, and pause between attempts.

    Pauses grow from `first` to `longest`. Half of each is random: those that failed together do
    not retry together. It ends when `patience` seconds would be over at the next attempt.
    """
    deadline, pause = now() + patience, first
    while True:
        yield deadline - now()
        if now() + pause > deadline:
            return
        sleep(pause * _coin.uniform(0.5, 1.0))
        pause = min(pause * _GROWTH, longest)
