"""To wait for what another process does: never for a time, always with an end."""

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")

#: Seconds that a test waits for what takes seconds on an idle machine. On a busy one it may take a
#: hundred times as long, and no test is about speed. Below the limit of a whole test
#: (pyproject.toml), so that the test fails with its own words.
PATIENCE = 540.0


def wait_until(condition: Callable[[], Value], seconds: float = PATIENCE, what: str = "") -> Value:
    """The first true value of a condition; AssertionError after so many seconds."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {seconds} s in vain for {what or condition}"
        time.sleep(0.05)
    return value
