"""The values of a metric in a line of a log, in bounded time."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: A pattern that takes longer for one line (catastrophic backtracking) is dropped.
MATCH_SECONDS = 1.0
#: Seconds until a timer of the program that has ended meanwhile.
_SOON = 1e-3


def metric_values(pattern: re.Pattern[str], line: str) -> list[float]:
    """Return the numbers in the first group of each match of a metric's Regex.

    Raises TimeoutError for a pattern that takes more than MATCH_SECONDS, in the main thread.
    """
    with match_limit():
        found = [_number(match) for match in pattern.finditer(line)]
    return [value for value in found if value is not None]


@contextmanager
def match_limit() -> Iterator[None]:
    """Raise TimeoutError in the block after MATCH_SECONDS.

    Python's regular expressions check for signals while they backtrack, and only the main thread
    handles signals: another thread has no limit, and stops all others, as `re` holds the GIL. A
    handler and a timer that the program has set are there again after the block; those that it sets
    meanwhile, as for Ctrl-C, stay.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGALRM, _stop)
    began = time.monotonic()
    seconds, interval = signal.setitimer(signal.ITIMER_REAL, MATCH_SECONDS)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGALRM) is _stop:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler or signal.SIG_DFL)
            if seconds:
                left = seconds - (time.monotonic() - began)
                signal.setitimer(signal.ITIMER_REAL, max(left, _SOON), interval)


def too_slow_text(name: str, line: str) -> str:
    """Return the sentence about a metric whose pattern was dropped at a line."""
    return (
        f"the metric {name!r} is no longer read: its Regex takes more than "
        f"{MATCH_SECONDS:.0f} s on a line of {len(line)} characters"
    )


def _number(match: re.Match[str]) -> float | None:
    try:
        return float(match[1])
    except (IndexError, TypeError, ValueError):  # no group, an empty one, or no number
        return None


def _stop(_number: int, _frame: object) -> None:
    raise TimeoutError
