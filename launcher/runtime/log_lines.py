"""Whole lines of what one program prints, as its host's log keeps them."""

from __future__ import annotations

import re

#: A line ends here at the latest, in bytes.
_LONGEST = 1 << 20
#: A line that begins like an event of ours: it gets a blank in front, so that it is never one.
_LIKE_EVENT = re.compile(rb"^(?=launcher[:|])", re.MULTILINE)
#: A second bar of tqdm: below the first one, and then the cursor moves up again.
_BAR_BELOW = re.compile(rb"\n+(\r[^\n]*?)(?:\x1b\[A)+")
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

    @property
    def open_text(self) -> bytes:
        """The text of the line that has not ended yet, as a terminal shows it."""
        return _shown(self._open or self._bar)

    def add(self, chunk: bytes) -> bytes:
        """Add output; return the lines that it completes."""
        if self._is_left_for(chunk):
            self._bar, self._open = self._open, b""
        if b"\r" in chunk:
            self._bar = b""
        text = (self._open + chunk).replace(b"\r\n", b"\n")
        if b"\x1b[A" in text:
            text = _BAR_BELOW.sub(rb"\1", text)
        end = text.rfind(b"\n") + 1
        lines, self._open = text[:end], text[end:]
        if b"\r" in self._open:
            self._open = _reduced(self._open)
        if len(self._open) > _LONGEST:
            lines, self._open = lines + self._open + b"\n", b""
        return _kept(lines)

    def close(self) -> bytes:
        """Return the last line, with an end, if the program has left it open."""
        left = [text for line in (self._bar, self._open) if (text := _shown(line))]
        self._bar = self._open = b""
        return _kept(b"".join(text + b"\n" for text in left))

    def _is_left_for(self, chunk: bytes) -> bool:
        """Return whether another line follows a bar, which would begin with a carriage return."""
        is_bar = self._open.startswith(b"\r") and not self._open.endswith(b"\r")
        return is_bar and _RETURN.match(chunk) is None


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
