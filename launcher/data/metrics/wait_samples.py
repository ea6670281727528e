"""Sample what a thread waits for, as the kernel reports it.

A thread's `wchan` is the function of the kernel in which it sleeps: "0" while it runs, and where
the kernel hides it; then its state is left, of which "sleeping" tells nothing more.
https://docs.kernel.org/filesystems/proc.html
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import heapq
import os
import re
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from pathlib import Path

from launcher.shared import EVENTS_VARIABLE, WaitKind, in_source, is_users

#: Seconds between two samples: each takes some 30 us.
_EVERY = 0.05
#: Beginnings of the kernel's functions, by what is waited for.
_WAITS = {
    WaitKind.LOCK: ("futex", "flock", "locks_", "posix_lock", "__flock"),
    WaitKind.CHILD: ("do_wait", "wait4", "pipe_", "anon_pipe"),
    WaitKind.SLEEP: ("hrtimer_nanosleep", "do_nanosleep"),
    WaitKind.NETWORK: (
        *("sk_wait", "wait_woken", "tcp_", "inet", "unix_", "skb_", "__skb"),
        *("poll_schedule", "do_epoll", "ep_poll", "do_select", "do_poll"),
    ),
    WaitKind.DISK: (
        *("io_schedule", "folio_wait", "wait_on_page", "blk_", "submit_bio", "jbd2", "bit_wait"),
        *("filemap", "nfs", "rpc_", "fuse", "request_wait", "ext4", "xfs", "wb_", "balance_dirty"),
    ),
}
#: Lines of faulthandler.
_THREAD = re.compile(r"(Current thread|Thread) 0x(?P<ident>[0-9a-f]+)")
_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+|\?\?\?) in (?P<name>.*)$')
#: Frames of the user's code that are named at most: the rest counts without a place.
_MOST_PLACES = 50


def kind_of(thread: int) -> WaitKind | None:
    """Return what a thread of this process waits for; None while it runs."""
    task = Path(f"/proc/self/task/{thread}")
    try:
        waits = (task / "wchan").read_text()
        state = "S" if waits != "0" else (task / "stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return None
    for kind, beginnings in _WAITS.items():
        if waits.startswith(beginnings):
            return kind
    return {"R": None, "D": WaitKind.DISK}.get(state, WaitKind.OTHER)


class WaitSamples:
    """Seconds of the calling thread, by phase, by what it waits for, and by the user's function.

    Outside a job, where nobody reads them, none are taken: a script or notebook gets no thread.

    phase: returns the phase of the thread now; None outside all.
    """

    def __init__(self, phase: Callable[[], str | None], *, names_code: bool = True) -> None:
        self.seconds: defaultdict[tuple[str, str, str], float] = defaultdict(float)
        self._phase, self._names_code = phase, names_code
        self._stacks: _Stacks | None = None
        self._read_again = 0.0
        self._last = self._read_in = ""
        self._thread, self._ident = threading.get_native_id(), threading.get_ident()
        if EVENTS_VARIABLE in os.environ:
            threading.Thread(target=self._run, name="wait-samples", daemon=True).start()

    def by_kind(self) -> dict[str, float]:
        """Return the seconds of each kind of wait, of all phases."""
        found = dict.fromkeys((kind.value for kind in WaitKind), 0.0)
        for (_, kind, _), seconds in list(self.seconds.items()):
            if kind in found:
                found[kind] += seconds
        return found

    def take(self, most: int = 8) -> list[list[object]]:
        """Return the largest parts, as plain values, and begin anew."""
        taken, self.seconds = self.seconds, defaultdict(float)
        largest = heapq.nlargest(most, taken.items(), key=itemgetter(1))
        return [[*key, round(seconds, 2)] for key, seconds in largest]

    def _run(self) -> None:
        if self._names_code:
            with contextlib.suppress(OSError):  # without it, times have no places
                self._stacks = _Stacks()
        before = time.perf_counter()
        while True:
            time.sleep(_EVERY)
            now = time.perf_counter()
            phase = self._phase()
            if phase is not None:
                kind = kind_of(self._thread)
                self._add(phase, "running" if kind is None else kind.value, now - before)
            before = now

    def _where(self, phase: str) -> str:
        """Return the user's functions that run, or ran when this phase's were read last."""
        began = time.perf_counter()
        is_rare = phase not in _STEADY and phase != self._read_in
        if self._stacks and (is_rare or began >= self._read_again):
            self._last, self._read_in = _place(self._stacks.frames(self._ident)), phase
            now = time.perf_counter()
            self._read_again = now + _REST * (now - began)
        return self._last if phase == self._read_in else ""

    def _add(self, phase: str, kind: str, seconds: float) -> None:
        key = (phase, kind, self._where(phase))
        if key not in self.seconds and len(self.seconds) >= _MOST_PLACES:
            key = (phase, kind, "")
        self.seconds[key] += seconds


#: A stack is read once it was not read for this many times of what reading it took, some 1 ms.
_REST = 400
#: Phases that come with each step.
_STEADY = ("data", "own")


class _Stacks:
    """Reads what a thread of this process runs, as faulthandler writes it.

    It must not be read by `sys._current_frames`: the thread goes on between two of its frames, and
    an older one is then read from memory that is used for something else (seen with Python 3.11: a
    crash of the process). faulthandler writes a whole stack while no thread runs.
    """

    def __init__(self) -> None:
        self._file = _memory_file()

    def frames(self, ident: int) -> Iterator[tuple[str, str, str]]:
        """Yield file, line and function of a thread's frames, the innermost first."""
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)
        faulthandler.dump_traceback(self._file, all_threads=True)
        text = os.pread(self._file, os.lseek(self._file, 0, os.SEEK_END), 0)
        is_wanted = False
        for line in text.decode("ascii", errors="replace").splitlines():
            if found := _FRAME.match(line):
                if is_wanted:
                    yield found["file"], found["line"], found["name"]
            elif found := _THREAD.match(line):
                is_wanted = int(found["ident"], 16) == ident


def _memory_file() -> int:
    """Return the descriptor of a file without a name, in memory where the system has such files."""
    if sys.platform == "linux":
        return os.memfd_create("stacks")
    descriptor, path = tempfile.mkstemp()
    os.unlink(path)  # noqa: PTH108 (a Path is not needed)
    return descriptor


def _place(frames: Iterable[tuple[str, str, str]]) -> str:
    """Return the user's functions that run, the outermost first, such as "save (train.py:9)"."""
    names: list[str] = []
    place = ""
    for file, line, name in frames:
        if is_users(file):
            if names and names[0] == name:  # it calls itself
                names.pop(0)
            if name != "<module>" or not names:
                place = f" ({in_source(file)}:{line})"
                names.insert(0, name)
        elif name == "save" and file.endswith("torch/serialization.py"):
            names.insert(0, "torch.save")
    return f"{names[0]}{place}{''.join(f' > {name}' for name in names[1:])}" if names else ""


class Collections:
    """Seconds that the garbage collector has taken in this process."""

    def __init__(self) -> None:
        self.seconds = self._began = 0.0
        gc.callbacks.append(self._on_collection)

    def _on_collection(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.perf_counter()
        elif self._began:
            self.seconds += time.perf_counter() - self._began
