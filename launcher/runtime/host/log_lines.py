"""Whole lines of what one program prints, as its host's log keeps them."""

from __future__ import annotations

import re

#: A line ends here at the latest, in bytes.
_LONGEST = 1 << 20
#: What follows a bar is held back up to here, in bytes: far more than a terminal's line.
_LONGEST_BELOW = 4096
#: A line that begins like an event of ours: it gets a blank in front, so that it is never one.
_LIKE_EVENT = re.compile(rb"^(?=launcher[:|])", re.MULTILINE)
#: What tqdm writes after a second bar, below the first one.
_CURSOR_UP = b"\x1b[A"
_MOVES_UP = re.compile(rb"((?:\x1b\[A)+)")
#: Nothing yet, or the first text, on the line below a bar: the cursor may still move up again.
_FIRST_BELOW = re.compile(rb"(?:\r[^\r\n]*\r?)?\Z")
#: What a program prints to return to the line that it has left open.
_RETURN = re.compile(rb"(?:\x1b\[[0-9;?]*[A-Za-z])*[\r\n]|\x1b\[A")


class LogLines:
    """Cuts a program's output into lines; one that carriage returns overwrite is kept once.

    The output of a progress bar is one open line, which the program writes again and again. The log
    gets it as it was last shown, once the program has ended it; lines printed meanwhile are before.
    """

    def __init__(self) -> None:
        self._open = b""
        self._bar = b""  # an open line that the program has left to print another
        self._below = b""  # what follows a bar, which it may end, or have moved the cursor down

    @property
    def open_text(self) -> bytes:
        """The text of the line that has not ended yet, as a terminal shows it."""
        return _shown((self._open + self._below).strip(b"\n") or self._bar)

    @property
    def is_undecided(self) -> bool:
        """True while only more output can show whether a bar's line has ended."""
        return bool(self._below)

    def decide(self) -> bytes:
        """Return the lines that are completed if no more output follows for some time."""
        return self._add(b"", is_last=True)

    def add(self, chunk: bytes) -> bytes:
        """Add what a program has written; return the lines that it completes."""
        if self._is_left_for(self._below + chunk):
            self._bar, self._open = self._open, b""
        return self.go_on(chunk)

    def go_on(self, rest: bytes) -> bytes:
        """Add the rest of what a program has written last; return the lines that it completes."""
        return self._add(rest, is_last=False)

    def _add(self, chunk: bytes, *, is_last: bool) -> bytes:
        chunk, self._below = self._below + chunk, b""
        if b"\r" in chunk:
            self._bar = b""
        text = (self._open + chunk).replace(b"\r\n", b"\n")
        if _CURSOR_UP in text:
            text = _joined(text)
        if not is_last:
            text, self._below = _split_below(text)
        end = text.rfind(b"\n") + 1
        lines, self._open = text[:end], text[end:]
        if b"\r" in self._open:
            self._open = _reduced(self._open)
        if len(self._open) > _LONGEST:
            lines, self._open = lines + self._open + b"\n", b""
        return _kept(lines)

    def close(self) -> bytes:
        """Return the last line, with an end, if the program has left it open."""
        lines = self.decide() if self.is_undecided else b""
        left = [text for line in (self._bar, self._open) if (text := _shown(line))]
        self._bar = self._open = b""
        return lines + _kept(b"".join(text + b"\n" for text in left))

    def _is_left_for(self, chunk: bytes) -> bool:
        """Return whether another line follows a bar, which would begin with a carriage return."""
        is_bar = self._open.startswith(b"\r") and not self._open.endswith(b"\r")
        return is_bar and _RETURN.match(chunk) is None


def _joined(text: bytes) -> bytes:
    """Return the text with each bar that the cursor moves up from on the line of the bar above.

    A move up takes back one line end, but not that of a line that another thread has printed
    between a bar's writes: such a line is no bar, or nothing follows it on the bar's own line.
    """
    *pieces, rest = _MOVES_UP.split(text)
    parts: list[bytes] = []
    for piece, moves in zip(pieces[::2], pieces[1::2], strict=True):
        start = piece.rfind(b"\n") + 1
        if piece.startswith(b"\r", start):
            above = piece[:start].rstrip(b"\n")
            line = above[above.rfind(b"\n") + 1 :]
            left = start - len(above) - len(moves) // len(_CURSOR_UP)
            if (line and b"\r" not in line) or not piece[start:].strip(b"\r"):
                left = max(left, 1)
            parts += [above, b"\n" * left, piece[start:]]
        else:
            is_bar = piece.find(b"\r", start) >= 0
            parts += [piece] if is_bar else [piece, moves]
    return b"".join([*parts, rest])


def _split_below(text: bytes) -> tuple[bytes, bytes]:
    """Split off the line end behind a last bar, and the first text on the line below it."""
    last = text.rfind(b"\n")
    if last < 0 or _FIRST_BELOW.match(text, last + 1) is None:
        return text, b""
    end = len(text[: last + 1].rstrip(b"\n"))
    if len(text) - end > _LONGEST_BELOW:
        return text, b""
    is_bar = b"\r" in text[text.rfind(b"\n", 0, end) + 1 : end]
    return (text[:end], text[end:]) if is_bar else (text, b"")


def _kept(lines: bytes) -> bytes:
    if b"\r" in lines:
        lines = b"\n".join(_shown(line) for line in lines.split(b"\n"))
    if lines.startswith(b"launcher") or b"\nlauncher" in lines:
        lines = _LIKE_EVENT.sub(b" ", lines)
    return lines


def _shown(line: bytes) -> bytes:
    """Return the last text that carriage returns have left on a line."""
    texts = [text for text in line.split(b"\r") if text.strip()]
    return texts[-1] if texts else b""


def _reduced(line: bytes) -> bytes:
    """Return an overwritten line without the texts that it no longer shows."""
    return b"\r" + _shown(line) + (b"\r" if line.endswith(b"\r") else b"")
