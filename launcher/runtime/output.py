"""What programs print: in whole lines, passed on to the host's log at once, the last remembered."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
from pathlib import Path

#: Bytes that are remembered; a FailureReason has 1,024 characters.
_REMEMBERED = 4096
_CHUNK = 65536


class Output:
    """The pipe that a program prints to.

    `write_end` is for the program; it is closed here once the program has it, so that the end of
    the program, and of all that it has started, is the end of the pipe.
    """

    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        self._prepare()

    def _prepare(self) -> None:
        self._last = b""
        self._thread = threading.Thread(target=self._pass_on, name="output", daemon=True)

    def follow(self) -> None:
        """Begin, when the program has started."""
        os.close(self.write_end)
        self._thread.start()

    def last_lines(self) -> str:
        """The end of what was printed; the first of the lines may be cut."""
        return self._last.decode(errors="replace")

    def drain(self, patience: float = 0.5) -> None:
        """Wait for what is still in the pipe; a program that lives on may hold it for ever."""
        self._thread.join(patience)

    def _pass_on(self) -> None:
        """Line by line, so that event lines of this host stand between them."""
        begun = b""
        while chunk := os.read(self._read_end, _CHUNK):
            self._last = (self._last + chunk)[-_REMEMBERED:]
            end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
            if end or len(begun) > _CHUNK:
                _print(begun + chunk[:end])
                begun = b""
            begun += chunk[end:]
        _print(begun)
        os.close(self._read_end)


class NamedOutput(Output):
    """A pipe that programs open by its path: those that others start for this host."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._read_end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # else it waits for a writer
        self.write_end = os.open(path, os.O_WRONLY)
        os.set_blocking(self._read_end, True)
        self._prepare()

    def follow(self) -> None:
        """Begin, before there is a program."""
        self._thread.start()

    def drain(self, patience: float = 0.5) -> None:
        """Take no new programs, and wait for what is still in the pipe."""
        os.close(self.write_end)
        super().drain(patience)


def print_whole_lines() -> None:
    """Let each print() of this process be one write, so that lines of several do not mix.

    Unbuffered, as hosts run Python, the end of a line is a write of its own, and another process's
    line can stand before it.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True, write_through=False)


def _print(text: bytes) -> None:
    with contextlib.suppress(OSError):  # nobody reads the log; the program must not stand still
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
