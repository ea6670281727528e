"""Python stacks of running processes, available even while C code holds the interpreter.

A rank lets faulthandler write its stacks to a file on DUMP_SIGNAL. Its host sends the signal, reads
the files, and describes briefly what the main thread of each rank is doing.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import linecache
import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from launcher.runtime.end.wait_marks import wait_for_first_contact
from launcher.shared import DUMPED_FRAME

#: A signal without another use: scripts often use SIGUSR1 and SIGUSR2, and the C library takes the
#: first real-time signals.
DUMP_SIGNAL = signal.SIGRTMIN + 9
#: The main thread of every rank starts with this frame; a dump that contains it is complete.
_ENTRY = ("launcher/runtime/launch/rank.py", "run")
#: Files in which a process only waits for others.
_WAITING_FILES = re.compile(r"/torch/(distributed|autograd|cuda|futures)/")
#: The file whose functions mark waits of a data engine, and how many frames deep a wait can be.
_MARKS_FILE = "launcher/runtime/end/wait_marks.py"
_MARK_DEPTH = 6
#: Waits in the user's own lines, since a wait in C has no Python frame.
_WAITING_CALL = re.compile(r"\.(wait|item|cpu|tolist|synchronize)\(")
_TIMEOUT = 3.0
_POLL = 0.02
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class StackFrame:
    """One frame of a stack."""

    file: str
    line: int
    function: str

    @property
    def source(self) -> str:
        """The text of the line; empty if the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def is_data_mark(self) -> bool:
        """True if what runs inside this frame waits for data."""
        return self.file.endswith(_MARKS_FILE)

    @property
    def is_first_contact(self) -> bool:
        """True if what runs inside this frame waits for hosts to start."""
        return self.is_data_mark and self.function == wait_for_first_contact.__name__


def is_wait(inside: Sequence[StackFrame]) -> bool:
    """Return true if a thread waits for other processes, given its frames, innermost first."""
    if any(frame.is_data_mark for frame in inside[:_MARK_DEPTH]):
        return True
    callers = (frame for frame in inside if not frame.file.endswith("/socket.py"))
    frame = next(callers, None)
    if frame is None:
        return False
    return bool(_WAITING_FILES.search(frame.file) or _WAITING_CALL.search(frame.source))


@dataclass(frozen=True)
class StackDump:
    """One rank's stacks, as the text for the log.

    stopped: true if the process was frozen (SIGSTOP) and had to be resumed.
    """

    rank: int
    pid: int
    text: str
    stopped: bool = False

    @property
    def frames(self) -> list[StackFrame]:
        """The frames of the main thread, innermost first."""
        threads = [list(_frames(block)) for block in self.text.split("\n\n")]
        main = [frames for frames in threads if any(map(_is_entry, frames))]
        return (main or threads)[-1]

    @property
    def is_waiting(self) -> bool:
        """True if the rank waits for other processes."""
        return not self.stopped and is_wait(self.frames)

    def describe(self, code: Path) -> str:
        """Describe what the rank is doing and where: "waits in all_reduce (train.py:31)"."""
        frames = self.frames
        user_frame = next(
            (n for n, each in enumerate(frames) if code in Path(each.file).parents), None
        )
        verb = "is stopped (SIGSTOP)" if self.stopped else "waits" if self.is_waiting else "is"
        if user_frame is None:
            return f"{verb} in {frames[0].function}" if frames else "is without a stack"
        here = frames[user_frame]
        what = _called_function(frames[:user_frame]) or here.source
        return f"{verb} in {what} ({Path(here.file).relative_to(code)}:{here.line})"


def enable_dumps(folder: Path, rank: int) -> None:
    """Let this process write its stacks to a file of the folder whenever it gets DUMP_SIGNAL."""
    file = _dump_file(folder, rank, os.getpid()).open("wb", buffering=0)
    faulthandler.register(DUMP_SIGNAL, file=file, all_threads=True)


def collect_dumps(folder: Path) -> list[StackDump]:
    """Return the stacks of every living rank; frozen ranks are resumed to write theirs."""
    requests = [(path, rank, pid, _request_dump(pid)) for path, rank, pid in _dump_files(folder)]
    deadline = time.monotonic() + _TIMEOUT
    return [
        StackDump(rank=rank, pid=pid, text=_read(path, deadline), stopped=state == "T")
        for path, rank, pid, state in requests
        if state
    ]


def _dump_file(folder: Path, rank: int, pid: int) -> Path:
    return folder / f"stack-{rank}-{pid}"


def _dump_files(folder: Path) -> Iterator[tuple[Path, int, int]]:
    for path in sorted(folder.glob("stack-*"), key=lambda path: int(path.name.split("-")[1])):
        _, rank, pid = path.name.split("-")
        yield path, int(rank), int(pid)


def _request_dump(pid: int) -> str:
    """Make a process write its stacks; return its state before that, or "" if it has exited."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "Z":
            return ""
        _signal_main_thread(pid, DUMP_SIGNAL)
        os.kill(pid, signal.SIGCONT)
    except (OSError, IndexError):
        return ""
    return state.upper()  # "t" is a process stopped by a debugger


def _signal_main_thread(pid: int, number: int) -> None:
    """Signal the main thread, so that a frozen process reports where it was before it continues.

    A signal to the process may go to any of its threads. A C library without tgkill(2) offers
    nothing better.
    """
    if not hasattr(_LIBC, "tgkill"):
        os.kill(pid, number)
    elif _LIBC.tgkill(pid, pid, number) != 0:
        raise ProcessLookupError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _read(path: Path, deadline: float) -> str:
    """Return a dump once the main thread is in it, or what has been written by the deadline."""
    while True:
        with contextlib.suppress(OSError):
            text = path.read_text(errors="replace")
            if any(_is_entry(frame) for frame in _frames(text)) and text.endswith("\n"):
                return text
        if time.monotonic() > deadline:
            return text
        time.sleep(_POLL)


def _frames(text: str) -> Iterator[StackFrame]:
    for match in map(DUMPED_FRAME.match, text.splitlines()):
        if match:
            yield StackFrame(match["file"], int(match["line"]), match["function"])


def _is_entry(frame: StackFrame) -> bool:
    file, function = _ENTRY
    return frame.file.endswith(file) and frame.function == function


def _called_function(inside: Sequence[StackFrame]) -> str:
    """Return the name of what the user's line called: the outermost frame that is not a wrapper."""
    if any(frame.is_data_mark for frame in inside):
        return "the data loader"
    for frame in reversed(inside):
        if frame.function != "wrapper" and not frame.function.startswith("_"):
            return frame.function
    return inside[0].function if inside else ""
