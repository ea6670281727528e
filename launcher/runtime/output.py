"""Forwards what programs print to the host's log in whole lines and remembers the last bytes."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

#: Bytes to remember; a FailureReason has 1,024 characters.
_REMEMBERED = 4096
_CHUNK = 65536


class Output:
    """The pipe that a program prints to.

    `write_end` belongs to the program. It is closed here once the program has it, so the pipe ends
    when the program and everything it started have ended.

    watch: called with the last lines whenever the program has printed.
    """

    def __init__(self, watch: Callable[[str], None] = lambda _: None) -> None:
        self._read_end, self.write_end = os.pipe()
        self._prepare(watch)

    def _prepare(self, watch: Callable[[str], None] = lambda _: None) -> None:
        self._watch = watch
        self._last = b""
        self._thread = threading.Thread(target=self._forward, name="output", daemon=True)

    def follow(self) -> None:
        """Start forwarding; call it once the program has started."""
        os.close(self.write_end)
        self._thread.start()

    def last_lines(self) -> str:
        """Return the last printed lines, the first of which may be cut."""
        return self._last.decode(errors="replace")

    def drain(self, timeout: float = 0.5) -> None:
        """Wait up to `timeout` s for the rest; a living program may hold the pipe open."""
        self._thread.join(timeout)

    def _forward(self) -> None:
        """Forward whole lines, so that this host's event lines appear between them."""
        partial = b""
        while chunk := os.read(self._read_end, _CHUNK):
            self._last = (self._last + chunk)[-_REMEMBERED:]
            end = max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1
            if end or len(partial) > _CHUNK:
                _print(partial + chunk[:end])
                partial = b""
            partial += chunk[end:]
            self._watch(self.last_lines())
        _print(partial)
        os.close(self._read_end)


class NamedOutput(Output):
    """A named pipe, for programs that others start on behalf of this host."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self._read_end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # else blocks for a writer
        self.write_end = os.open(path, os.O_WRONLY)
        os.set_blocking(self._read_end, True)
        self._prepare()

    def follow(self) -> None:
        """Start forwarding; a program is not needed yet."""
        self._thread.start()

    def drain(self, timeout: float = 0.5) -> None:
        """Accept no new programs, and wait up to `timeout` s for what is left in the pipe."""
        os.close(self.write_end)
        super().drain(timeout)


def print_whole_lines() -> None:
    """Make each print() of this process one write, so that lines of several processes do not mix.

    Hosts run Python unbuffered. Then the newline is a separate write, and another process's line
    can appear before it.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True, write_through=False)


def _print(text: bytes) -> None:
    with contextlib.suppress(OSError):  # the log has no reader; the program must not block
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
