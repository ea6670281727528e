"""What a program shows on a terminal of some width: a real pseudo-terminal, and its screen."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

_ROWS = 40
_TOKEN = re.compile(r"\x1b\[(?P<numbers>[?0-9;]*)(?P<letter>[A-Za-z])|(?P<char>.)", re.DOTALL)
#: The start of a control sequence whose rest is in the next piece of output.
_UNFINISHED = re.compile(r"\x1b(\[[?0-9;]*)?\Z")


@dataclass
class EmulatedScreen:
    """The rows of a terminal, with all that have scrolled off it.

    It knows what rich and progress bars use: the cursor up, lines erased, and colours. Anything
    else that controls a terminal is kept in `unknown`.
    """

    columns: int
    rows: list[list[str]] = field(default_factory=lambda: [[]])
    unknown: list[str] = field(default_factory=list)
    _row: int = 0
    _column: int = 0
    _held: str = ""

    def feed(self, text: str, *, is_last: bool = False) -> None:
        text = self._held + text
        end = _UNFINISHED.search(text)
        self._held = end[0] if end and not is_last else ""
        for token in _TOKEN.finditer(text.removesuffix(self._held)):
            if token["letter"]:
                self._control(token["letter"], token["numbers"])
            else:
                self._put(token["char"])

    def lines(self) -> list[str]:
        """The rows that have text, as a person sees them."""
        lines = ["".join(row).rstrip() for row in self.rows]
        return [line for line in lines if line]

    def _control(self, letter: str, numbers: str) -> None:
        if letter == "A":
            self._row = max(0, self._row - int(numbers or 1))
        elif (letter, numbers) == ("K", "2"):
            self.rows[self._row] = []
        elif letter != "m" and (letter, numbers) not in (("l", "?25"), ("h", "?25")):
            self.unknown.append(numbers + letter)

    def _put(self, char: str) -> None:
        if char == "\r":
            self._column = 0
        elif char == "\n":
            self._next_row()
        elif char.isprintable():
            self._print(char)
        else:
            self.unknown.append(char)

    def _print(self, char: str) -> None:
        width = 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if self._column + width > self.columns:
            self._next_row()
            self._column = 0
        row = self.rows[self._row]
        row.extend(" " * (self._column + width - len(row)))
        row[self._column : self._column + width] = [char, *[""] * (width - 1)]
        self._column += width

    def _next_row(self) -> None:
        self._row += 1
        while len(self.rows) <= self._row:
            self.rows.append([])


@dataclass
class Capture:
    """A session on a terminal.

    states: the last rows of the screen each time they had changed. text: all that was written.
    """

    screen: EmulatedScreen
    code: int = 0
    text: str = ""
    states: list[list[str]] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        return self.screen.lines()


def capture(
    command: Sequence[str],
    *,
    columns: int,
    environment: Mapping[str, str],
    interrupt_at: Callable[[str], bool] = lambda _: False,
    seconds: float = 120,
) -> Capture:
    """Run a command on a terminal; press Ctrl-C once when its output is as it should be."""
    pid, terminal = pty.fork()
    if not pid:
        os.execvpe(command[0], list(command), {**os.environ, **environment})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, columns, 0, 0))
    done = Capture(screen=EmulatedScreen(columns=columns))
    is_pressed, deadline = False, time.monotonic() + seconds
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    while (read := _read(terminal)) is not None and time.monotonic() < deadline:
        piece = decoder.decode(read)
        done.text += piece
        done.screen.feed(piece)
        state = done.lines[-10:]
        if not done.states or state != done.states[-1]:
            done.states.append(state)
        if not is_pressed and interrupt_at(done.text):
            is_pressed = True
            os.write(terminal, b"\x03")
    rest = decoder.decode(b"", final=True)
    done.text += rest
    done.screen.feed(rest, is_last=True)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL) if time.monotonic() > deadline else None
    done.code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(terminal)
    return done


def _read(terminal: int) -> bytes | None:
    """The next output; None once the program has ended."""
    if not select.select([terminal], [], [], 0.2)[0]:
        return b""
    try:
        return os.read(terminal, 65536) or None
    except OSError:
        return None


class Typist:
    """Someone at a terminal who types lines and reads the answers."""

    def __init__(self, command, environment):
        self.pid, self.terminal = pty.fork()
        if not self.pid:
            os.execvpe(command[0], command, {**os.environ, **environment, "TERM": "dumb"})
        self.text = ""

    def type(self, text):
        os.write(self.terminal, text.encode())

    def wait_for(self, text):
        deadline = time.monotonic() + 500
        while text not in self.text:
            assert time.monotonic() < deadline, self.text
            chunk = _read(self.terminal)
            assert chunk is not None, self.text
            self.text += chunk.decode()
        self.text = self.text.partition(text)[2]

    def leave(self):
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.terminal)
        return code
