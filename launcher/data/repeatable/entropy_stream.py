"""A seeded stream in place of the system's entropy, while dataset code runs.

While dataset code runs in a thread, an `EntropyStream` is active there. What `numpy.random`,
`random` and torch would request from the system is drawn from it: a function of the seed that was
set last, of the thread, and of the number of draws since. `entropy_sources` connects them.
"""

from __future__ import annotations

import contextlib
import hashlib
import struct
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeVar

_T = TypeVar("_T")
_NUMBER = struct.Struct("<I")
#: The kind of streams of forks, whose global generators are their own.
FORK = b"fork"


class EntropyStream:
    """Entropy of one thread that runs dataset code.

    A thread, a task of a thread pool or a fork that it starts has a stream below it, which follows
    the seed of the one at the top. Starts and draws are counted from each seed on.

    keeps: generators that outlive the call that makes them are seeded anew with each seed.
    seeds_system: os.urandom is drawn from it, too; those below it do as the top does.
    """

    def __init__(
        self, *, keeps: bool = True, top: EntropyStream | None = None, path: bytes = b""
    ) -> None:
        self.keeps = keeps
        self.seeds_system = False
        self._top = top or self
        #: True for a thread or a task, beside which others draw from the global generators.
        self.is_beside = False
        self._path = path
        self._seed = b""
        self._turn = 0  # counts the seeds of the top, and here the one that the counts are of
        self._drawn = 0
        self._started: Counter[bytes] = Counter()
        self._below: weakref.WeakSet[EntropyStream] = weakref.WeakSet()

    @property
    def top(self) -> EntropyStream:
        """The stream that this one is below, or this one."""
        return self._top

    @property
    def path(self) -> bytes:
        """Its label among the streams of one top, the same in every process."""
        return self._path

    def reseed(self, seed: int) -> None:
        """Set the seed of 64 bits from which this stream and those below it follow."""
        self._seed = seed.to_bytes(8, "little")
        self._turn += 1
        self._start_counting()

    def draw(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        return self.draw_labelled(self.next_label(), size)

    def draw_int(self, bits: int) -> int:
        """Return the next number of so many bits."""
        size = (bits + 7) // 8
        return int.from_bytes(self.draw(size), "little") >> (8 * size - bits)

    def next_label(self) -> bytes:
        """Return the label of the next draw."""
        self._follow()
        self._drawn += 1
        return self._path + b"d" + _NUMBER.pack(self._drawn - 1)

    def draw_labelled(self, label: bytes, size: int) -> bytes:
        """Return the bytes of a label."""
        return hashlib.shake_256(self._top._seed + label).digest(size)

    def start(self, kind: bytes) -> EntropyStream:
        """Return the stream for what is started now: one of several of its kind."""
        self._follow()
        path = self._path + kind + _NUMBER.pack(self._started[kind])
        self._started[kind] += 1
        below = EntropyStream(keeps=self.keeps, top=self._top, path=path)
        below.is_beside = self.is_beside or kind != FORK
        self._below.add(below)
        return below

    def of_module(self, name: str) -> EntropyStream:
        """Return the stream of a module that is imported now: the same in every process."""
        stream = EntropyStream(keeps=self.keeps, path=b"module" + name.encode("utf-8", "replace"))
        stream.seeds_system = self._top.seeds_system
        stream.is_beside = self.is_beside
        return stream

    @property
    def counts(self) -> tuple[int, dict[str, int]]:
        """Draws and starts since the last seed, of each kind."""
        self._follow()
        return self._drawn, {kind.hex(): count for kind, count in self._started.items()}

    @counts.setter
    def counts(self, counts: tuple[int, dict[str, int]]) -> None:
        self._follow()
        self._drawn = counts[0]
        self._started = Counter({bytes.fromhex(kind): count for kind, count in counts[1].items()})

    @property
    def has_started(self) -> bool:
        """True if a thread, a task or a fork was started since the last seed."""
        return bool(self._started)

    def keep_started(self) -> bool:
        """Set apart the threads that were started since the last seed and still run.

        Threads that are started later do not share their numbers. Returns whether there are any.
        """
        living = list(self._below)
        for below in living:
            below._path = b"kept" + below._path
        self._below.clear()
        return bool(living)

    def _follow(self) -> None:
        """Begin to count anew if the top has a new seed."""
        if self._turn != self._top._turn:
            self._turn = self._top._turn
            self._start_counting()

    def _start_counting(self) -> None:
        self._drawn = 0
        if self._started:
            self._started.clear()
            self._below.clear()


class _OfThread(threading.local):
    """The stream that is active in this thread, and the one of its samples."""

    active: EntropyStream | None = None
    own: EntropyStream | None = None


_of_thread = _OfThread()


def active_stream() -> EntropyStream | None:
    """Return the stream of the dataset code that runs in this thread; None if none does."""
    return _of_thread.active


def activate(stream: EntropyStream | None) -> None:
    """Make this thread draw from a stream, or from the system."""
    _of_thread.active = stream


def stream_of_thread() -> EntropyStream:
    """Return the stream of this thread's samples, which threads that they start follow."""
    if _of_thread.own is None:
        _of_thread.own = EntropyStream()
    return _of_thread.own


@contextlib.contextmanager
def drawing_from(stream: EntropyStream | None) -> Iterator[None]:
    """Make this thread draw from a stream meanwhile, or from the system."""
    before = _of_thread.active
    _of_thread.active = stream
    try:
        yield
    finally:
        _of_thread.active = before


def call_with(
    stream: EntropyStream, function: Callable[..., _T], *arguments: object, **named: object
) -> _T:
    """Call a function whose thread draws from a stream meanwhile."""
    with drawing_from(stream):
        return function(*arguments, **named)
