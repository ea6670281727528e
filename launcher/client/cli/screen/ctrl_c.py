"""Ctrl-C while a job is followed, and signals during work that must complete."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from launcher.client.cli.screen.verb_output import print_message
from launcher.client.jobs import Job

_SECONDS = 3.0
#: The column of the hints, less the length of the job's name.
_HINTS = len("launcher logs -f      ")


class Detached(BaseException):
    """The user detached; the job continues.

    Not an Exception: botocore treats one that is raised while it waits as a network failure.

    is_stopping: the user had stopped the job, and did not wait for its end.
    """

    def __init__(self, *, is_stopping: bool = False) -> None:
        super().__init__()
        self.is_stopping = is_stopping


@contextmanager
def detach_on_ctrl_c(job: Job, before_message: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Handle Ctrl-C in the block: the first one detaches, a second one within 3 s stops the job.

    before_message: called before what this prints.

    Raises Detached 3 s after a single Ctrl-C, and at once for a Ctrl-C after the job was stopped.
    """

    def detach(_number: int, _frame: FrameType | None) -> None:
        raise Detached

    def leave(_number: int, _frame: FrameType | None) -> None:
        raise Detached(is_stopping=True)

    def on_first(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, on_second)
        signal.signal(signal.SIGALRM, detach)
        signal.setitimer(signal.ITIMER_REAL, _SECONDS)
        before_message()
        print_detached(job.name)
        again = f"Ctrl-C again within {_SECONDS:.0f} s"
        print_message(f"  {again:<{len(job.name) + _HINTS}}stop it now")

    def on_second(_number: int, _frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, leave)
        job.stop()
        print_message(f"\nStopping job {job.name}: its hosts have 120 s to save their work.")

    before = signal.signal(signal.SIGINT, on_first), signal.getsignal(signal.SIGALRM)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGALRM, before[1])


def print_detached(name: str) -> None:
    """Print that the job continues, and how to return to it."""
    print_message(
        f"\nDetached; job {name} continues.\n"
        f"  launcher logs -f {name}     follow it again\n"
        f"  launcher status {name}      show its status\n"
        f"  launcher stop {name}        stop it"
    )


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
