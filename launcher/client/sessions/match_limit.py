"""A limit to the time that a regular expression may take for a line."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: A pattern that takes longer for one line (catastrophic backtracking) is dropped.
MATCH_SECONDS = 1.0


@contextmanager
def match_limit() -> Iterator[None]:
    """Raise TimeoutError in the block after MATCH_SECONDS.

    Python's regular expressions check for signals while they backtrack, and only the main thread
    handles signals: another has no limit, nor has a program that uses SIGALRM itself.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, MATCH_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def too_slow_text(name: str, line: str) -> str:
    """Return the sentence about a metric whose pattern was dropped at a line."""
    return (
        f"the metric {name!r} is no longer read: its Regex takes more than "
        f"{MATCH_SECONDS:.0f} s on a line of {len(line)} characters"
    )


def _stop(_number: int, _frame: object) -> None:
    raise TimeoutError
