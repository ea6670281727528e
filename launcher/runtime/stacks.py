"""What a process is doing: its Python stack, given even while C code holds the interpreter.

A rank lets faulthandler write its stacks into a file when DUMP_SIGNAL comes; its host sends the
signal, reads the files, and says in a few words what the main thread of each rank is doing.
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

#: Nobody else's: SIGUSR1 and SIGUSR2 are often the user's, and the C library takes the first ones.
DUMP_SIGNAL = signal.SIGRTMIN + 9
#: The main thread of every rank begins with these frames; a dump that has them is complete.
_ENTRY = ("launcher/runtime/rank.py", "run")
_FRAME = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$')
#: Where a process waits for others, and nothing else.
_WAITING_FILES = re.compile(r"/torch/(distributed|autograd|cuda|futures)/")
_LOADER_FILES = ("/launcher/data/service.py", "/launcher/data/memory/borrower.py")
#: The same in a line of the user's own: a wait in C has no Python frame.
_WAITING_CALL = re.compile(r"\.(wait|item|cpu|tolist|synchronize)\(")
_PATIENCE = 3.0
_POLL = 0.02
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Frame:
    """One line of a stack."""

    file: str
    line: int
    function: str

    @property
    def source(self) -> str:
        """The text of the line; empty where the file cannot be read."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def is_loader(self) -> bool:
        """Whether it is the data loader's, where that talks to the data service."""
        return self.file.endswith(_LOADER_FILES)


def is_wait(inside: Sequence[Frame]) -> bool:
    """Whether a thread waits for other processes, by its frames, innermost first."""
    callers = (frame for frame in inside if not frame.file.endswith("/socket.py"))
    frame = next(callers, None)
    if frame is None:
        return False
    return bool(
        frame.is_loader or _WAITING_FILES.search(frame.file) or _WAITING_CALL.search(frame.source)
    )


@dataclass(frozen=True)
class Dump:
    """One rank's stacks: as text for the log, and the frames of its main thread, innermost first.

    stopped: whether the process was frozen (SIGSTOP), so that it could not answer before.
    """

    rank: int
    pid: int
    text: str
    stopped: bool = False

    @property
    def frames(self) -> list[Frame]:
        threads = [list(_frames(block)) for block in self.text.split("\n\n")]
        main = [frames for frames in threads if any(map(_is_entry, frames))]
        return (main or threads)[-1]

    @property
    def waits(self) -> bool:
        return not self.stopped and is_wait(self.frames)

    def doing(self, code: Path) -> str:
        """What the rank is doing, where in the user's code: "waits in all_reduce (train.py:31)"."""
        frames = self.frames
        user = next((n for n, each in enumerate(frames) if code in Path(each.file).parents), None)
        verb = "is stopped (SIGSTOP)" if self.stopped else "waits" if self.waits else "is"
        if user is None:
            return f"{verb} in {frames[0].function}" if frames else "is silent"
        here = frames[user]
        what = _name(frames[:user]) or here.source
        return f"{verb} in {what} ({Path(here.file).relative_to(code)}:{here.line})"


def offer(folder: Path, rank: int) -> None:
    """Let this process write its stacks into a file of the folder whenever DUMP_SIGNAL comes."""
    file = _file(folder, rank, os.getpid()).open("wb", buffering=0)
    faulthandler.register(DUMP_SIGNAL, file=file, all_threads=True)


def collect(folder: Path) -> list[Dump]:
    """The stacks of every living rank that offers them; a frozen one is woken up to tell."""
    asked = [(path, rank, pid, _ask(pid)) for path, rank, pid in _offers(folder)]
    deadline = time.monotonic() + _PATIENCE
    return [
        Dump(rank=rank, pid=pid, text=_read(path, deadline), stopped=state == "T")
        for path, rank, pid, state in asked
        if state
    ]


def _file(folder: Path, rank: int, pid: int) -> Path:
    return folder / f"stack-{rank}-{pid}"


def _offers(folder: Path) -> Iterator[tuple[Path, int, int]]:
    for path in sorted(folder.glob("stack-*"), key=lambda path: int(path.name.split("-")[1])):
        _, rank, pid = path.name.split("-")
        yield path, int(rank), int(pid)


def _ask(pid: int) -> str:
    """Ask a process for its stacks; its state before, empty when it is gone."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "Z":
            return ""
        _signal_main_thread(pid, DUMP_SIGNAL)
        os.kill(pid, signal.SIGCONT)
    except (OSError, IndexError):
        return ""
    return state.upper()  # "t" is a process that a debugger holds


def _signal_main_thread(pid: int, number: int) -> None:
    """So that a frozen process tells where it was, before its main thread takes another step.

    A signal to the process is for any of its threads; a C library without tgkill(2) knows no other.
    """
    if not hasattr(_LIBC, "tgkill"):
        os.kill(pid, number)
    elif _LIBC.tgkill(pid, pid, number) != 0:
        raise ProcessLookupError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _read(path: Path, deadline: float) -> str:
    """A dump, when its main thread is in it; what there is of it at the deadline."""
    while True:
        with contextlib.suppress(OSError):
            text = path.read_text(errors="replace")
            if any(_is_entry(frame) for frame in _frames(text)) and text.endswith("\n"):
                return text
        if time.monotonic() > deadline:
            return text
        time.sleep(_POLL)


def _frames(text: str) -> Iterator[Frame]:
    for match in map(_FRAME.match, text.splitlines()):
        if match:
            yield Frame(match["file"], int(match["line"]), match["function"])


def _is_entry(frame: Frame) -> bool:
    file, function = _ENTRY
    return frame.file.endswith(file) and frame.function == function


def _name(inside: Sequence[Frame]) -> str:
    """What the user's line has called: the outermost frame that is no wrapper, by its name."""
    if any(frame.is_loader for frame in inside):
        return "the data loader"
    for frame in reversed(inside):
        if frame.function != "wrapper" and not frame.function.startswith("_"):
            return frame.function
    return inside[0].function if inside else ""
