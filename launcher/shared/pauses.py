"""Pauses between the attempts of a retry."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator

_GROWTH = 1.5
#: A private generator, since the user's code owns the global one and may use it in another thread.
_random = random.Random()


def backoff(
    *,
    first: float,
    longest: float,
    timeout: float = math.inf,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[float]:
    """Yield the seconds left before each attempt, at least once, and pause between attempts.

    Pauses grow from `first` to `longest`. Half of each is random, so that
    clients that failed together do not retry together. The iterator ends if the next attempt would
    begin after `timeout` seconds.
    """
    deadline, pause = now() + timeout, first
    while True:
        yield deadline - now()
        if now() + pause > deadline:
            return
        sleep(pause * _random.uniform(0.5, 1.0))
        pause = min(pause * _GROWTH, longest)
