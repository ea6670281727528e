"""To wait for what another process does: never for a time, always with an end."""

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def wait_until(condition: Callable[[], Value], seconds: float = 90.0, what: str = "") -> Value:
    """The first true value of a condition; AssertionError after so many seconds."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {seconds} s in vain for {what or condition}"
        time.sleep(0.05)
    return value
