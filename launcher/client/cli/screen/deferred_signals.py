"""Signals during work that must complete, or whose child processes must end with it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def defer_ctrl_c() -> Iterator[Callable[[], bool]]:
    """Defer Ctrl-C until the block ends; yield a function that returns True if it was pressed.

    Protects work that must complete: a job is created together with its platform process, or not at
    all.
    """
    pressed = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: pressed.set())
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt on SIGTERM in the block, so that its child processes end too."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
