"""A traceback in few lines: the user's frames, without Launcher's and without marks below code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: The first line of a traceback.
START = "Traceback (most recent call last):"
_FRAME = re.compile(r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+)(?P<rest>.*)$')
#: The places where hosts have the user's code and Launcher's.
_CODE = re.compile(r".*/ml/code/")
#: Launcher's own, and what it calls to import the user's module.
_OWN = re.compile(r"/ml/lib/launcher/|/site-packages/launcher/|/importlib/__init__\.py$|^<frozen ")
_MARKS = re.compile(r"^\s*[\^~]+[\s\^~]*$")


@dataclass(frozen=True, kw_only=True)
class _TracebackFrame:
    file: str
    lines: tuple[str, ...]

    @property
    def is_users(self) -> bool:
        return _CODE.match(self.file) is not None


def short_traceback(lines: Sequence[str], limit: int) -> tuple[str, ...]:
    """Return the frames of the last traceback in some lines, at most `limit` lines.

    If there is not enough space, the innermost frames of the user's code are kept rather than those
    of libraries. The error itself, which follows the frames, is left out.
    """
    starts = [number for number, line in enumerate(lines) if line.strip() == START]
    frames = list(_frames(lines[starts[-1] + 1 :])) if starts else []
    kept: set[int] = set()
    used = 0
    for number in sorted(range(len(frames)), key=lambda n: (not frames[n].is_users, -n)):
        used += len(frames[number].lines)
        if used > limit:
            break
        kept.add(number)
    return tuple(line for number in sorted(kept) for line in frames[number].lines)


def raised_error(lines: Sequence[str]) -> str | None:
    """Return the error below the frames of the last traceback in some lines, or None."""
    starts = [number for number, line in enumerate(lines) if line.strip() == START]
    below = lines[starts[-1] + 1 :] if starts else ()
    return next((line for line in below if line and not line.startswith(" ")), None)


def _frames(lines: Sequence[str]) -> Iterator[_TracebackFrame]:
    """Yield the frames of a traceback that are not Launcher's."""
    frames: list[tuple[str, list[str]]] = []
    for line in lines:
        match = _FRAME.match(line)
        if match is not None:
            where = f'  File "{_CODE.sub("", match["file"])}", line {match["line"]}{match["rest"]}'
            frames.append((match["file"], [where]))
        elif not line.startswith(" ") or not frames:
            break  # the error, below the frames
        elif not _MARKS.match(line):
            frames[-1][1].append(f"    {line.strip()}")
    for file, block in frames:
        if not _OWN.search(file):
            yield _TracebackFrame(file=file, lines=tuple(block))
