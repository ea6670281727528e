"""Ctrl-C while a job is followed: once leaves the job to itself, twice within 3 s stops it.

While it is created, Ctrl-C waits for that, and leaves the job to itself then.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from launcher.cli.answer import tell
from launcher.job import Job

_SECONDS = 3.0


class Detached(BaseException):
    """The user goes, and the job goes on.

    No Exception: botocore takes one that is raised while it waits for a failure of the network.
    """


@contextmanager
def obey_ctrl_c(job: Job) -> Iterator[None]:
    """Give Ctrl-C its meaning for the block, which goes on until it is clear what was meant.

    Raises Detached 3 s after a single Ctrl-C, and at once for one after the job was stopped.
    """

    def leave(_number: int, _frame: FrameType | None) -> None:
        raise Detached

    def first(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, second)
        signal.signal(signal.SIGALRM, leave)
        signal.setitimer(signal.ITIMER_REAL, _SECONDS)
        tell_detached(job.name)
        tell(f"  Ctrl-C again within {_SECONDS:.0f} s     end it now")

    def second(_number: int, _frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, leave)
        job.stop()
        tell(f"\nStopping job {job.name}: its hosts have 120 s to save their work.")

    before = signal.signal(signal.SIGINT, first), signal.getsignal(signal.SIGALRM)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGALRM, before[1])


@contextmanager
def hold_ctrl_c() -> Iterator[Callable[[], bool]]:
    """Let the block run to its end whatever the user presses; gives a call that tells whether.

    For what must not be left half done: a job is created with its platform process, or not at all.
    """
    pressed = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: pressed.set())
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """SIGTERM raises KeyboardInterrupt in the block, so that what it has started ends too."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def tell_detached(name: str) -> None:
    """Say that the job goes on, and how to come back to it."""
    tell(
        f"\nDetached; job {name} goes on.\n"
        f"  launcher logs -f {name}     come back\n"
        f"  launcher status {name}      how it stands\n"
        f"  launcher stop {name}        end it"
    )
