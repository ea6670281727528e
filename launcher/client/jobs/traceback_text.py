"""A traceback in few lines: the user's frames, without Launcher's and without ^^^^ markers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from launcher.shared import DUMPED_FRAME, FRAME, in_source, is_marks, is_users

#: The first line of a traceback.
START = "Traceback (most recent call last):"
#: The same of an error that torch.utils.data.DataLoader has brought from a worker process.
_STARTS = (START, f"Original {START}")
#: Lines to look for an error in, which may have more than one: a traceback before is another's.
AFTER_ERROR = 5
#: What precedes the traceback of an error that was raised `from` the one before it.
_RAISED_FROM = "The above exception was the direct cause of the following exception:"
#: The first line of an exception group, the first of its parts, and what begins lines of both.
_GROUP = "+ Exception Group Traceback (most recent call last):"
_PARTS = re.compile(r"^ +\+-\+-+ 1 -+$")
_GROUP_MARGIN = "  | "
_PART = re.compile(r"^    \| (?P<error>[\w.]+(?:: .*)?)$")
#: Errors of a group, and lines of an error below its first, to show; and their characters.
_MOST_PARTS = _MOST_LINES = 5
_LONGEST_LINE = 200
#: Where Python has its modules and installed packages.
_PACKAGES = re.compile(r"^/.*/python\d[\d.]*/(?:(?:site|dist)-packages/)?(?=\w)")
#: Launcher's own, and what it calls to import the user's module.
_OWN = re.compile(r"/ml/lib/launcher/|/site-packages/launcher/|/importlib/__init__\.py$|^<frozen ")
#: What faulthandler prints of a crash: frames from the innermost out, up to an empty line.
_CRASHED = re.compile(r"^(?:Current thread 0x|Stack \(most recent call first\):)")
#: The first line of an error of Launcher, whose further lines may be code to write.
_OWN_ERROR = re.compile(r"launcher\.errors\.\w+: ")
#: Lines of such an error to show, with its indentation; and their characters.
_MOST_OWN_LINES, _LONGEST_OWN_LINE = 12, 1000


@dataclass(frozen=True, kw_only=True)
class _TracebackFrame:
    file: str
    lines: tuple[str, ...]

    @property
    def is_users(self) -> bool:
        return is_users(self.file)


def short_traceback(lines: Sequence[str], limit: int, *, of_rank: bool = True) -> tuple[str, ...]:
    """Return the frames of the last traceback in some lines, at most `limit` lines.

    Of libraries, only the frame that raised the error is shown; where no frame is the user's, the
    innermost frames are. If there is not enough space, the user's innermost frames are kept.
    The first line of the error, which follows the frames, is left out; more of them,
    the error from which it was raised, and the errors of an exception group are the last lines.
    More of Launcher's own error comes first, as the first line begins its sentence.

    of_rank: the lines are those of a rank's error, and end with it.
    """
    own, parts = _group_parts(lines)
    starts = _starts(own)
    frames = list(_frames(own[starts[-1] + 1 :])) if starts else []
    before = _before_raising(own[: starts[-1]]) if starts else []
    origin = raised_error(before)
    if origin is not None and origin == raised_error(own):  # brought from another process
        frames += _frames(before[_starts(before)[-1] + 1 :])
        origin = None
    more = _more_of_error(own) if of_rank else ()
    first, last = (more, ()) if _is_own_error(own) else ((), more)
    below = (*last, *(parts or ((f"caused by {origin}",) if origin else ())))
    users = [number for number, frame in enumerate(frames) if frame.is_users]
    raising = [len(frames) - 1] if users and not frames[-1].is_users else []
    innermost_first = reversed(users or range(len(frames)))
    kept: set[int] = set()
    used = len(first) + len(below)
    for number in (*innermost_first, *raising):
        used += len(frames[number].lines)
        if used > limit:
            break
        kept.add(number)
    shown = (line for number in sorted(kept) for line in frames[number].lines)
    return (*first, *shown, *below)


def _is_own_error(lines: Sequence[str]) -> bool:
    return _OWN_ERROR.match(raised_error(lines) or "") is not None


def _group_parts(lines: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the lines of an exception group as those of any error, and its parts' errors."""
    starts = [number for number, line in enumerate(lines) if line.strip() == _GROUP]
    if not starts:
        return list(lines), ()
    group = lines[starts[-1] + 1 :]
    first = next((n for n, line in enumerate(group) if _PARTS.match(line)), len(group))
    errors = [found["error"] for line in group[first:] if (found := _PART.match(line))]
    more = (f"  and {len(errors) - _MOST_PARTS} more",) if len(errors) > _MOST_PARTS else ()
    own = [START, *(line.removeprefix(_GROUP_MARGIN) for line in group[:first])]
    return own, (*(f"  {error}" for error in errors[:_MOST_PARTS]), *more)


def _more_of_error(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the lines below the first line of the error, such as its notes."""
    starts = _starts(lines)
    below = list(lines[starts[-1] + 1 :]) if starts else []
    first = next((n for n, line in enumerate(below) if line[:1].strip()), len(below))
    if _is_own_error(lines):
        own = [
            f"  {line.rstrip()[:_LONGEST_OWN_LINE]}" for line in below[first + 1 :] if line.strip()
        ]
        return tuple(own[:_MOST_OWN_LINES])
    more = [line.strip()[:_LONGEST_LINE] for line in below[first + 1 :] if line.strip(' "')]
    rest = len(more) - _MOST_LINES
    left_out = [f"  and {rest} more lines"] if rest > 0 else []
    return (*(f"  {line}" for line in more[:_MOST_LINES]), *left_out)


def _starts(lines: Sequence[str]) -> list[int]:
    return [number for number, line in enumerate(lines) if line.strip() in _STARTS]


def _before_raising(before: Sequence[str]) -> list[str]:
    """Return the lines of the error from which the one below them was raised; else nothing."""
    texts = [number for number, line in enumerate(before) if line.strip()]
    is_direct = bool(texts) and before[texts[-1]].strip() == _RAISED_FROM
    return list(before[: texts[-1]]) if is_direct else []


def raised_error(lines: Sequence[str]) -> str | None:
    """Return the error below the frames of the last traceback in some lines, or None."""
    number = _error_line(lines)
    return None if number is None else lines[number]


def last_traceback(printed: Sequence[str]) -> Sequence[str]:
    """Return what a program has printed if a traceback was about the last of it, else nothing."""
    error = _error_line(printed)
    is_last = error is not None and len(printed) - error <= AFTER_ERROR
    return printed if is_last else ()


def _error_line(lines: Sequence[str]) -> int | None:
    """Return the number of the line that has the error of the last traceback, or None."""
    starts = _starts(lines)
    below = range(starts[-1] + 1, len(lines)) if starts else ()
    return next((number for number in below if lines[number][:1].strip()), None)


def crash_frames(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the user's frames in what faulthandler has printed of a crash, if it has."""
    start = next((n for n, line in enumerate(lines) if _CRASHED.match(line)), len(lines))
    frames = []
    for line in lines[start + 1 :]:
        if not line.startswith("  "):
            break
        match = DUMPED_FRAME.match(line)
        if match is not None and is_users(match["file"]):
            file = in_source(match["file"])
            frames.append(f'  File "{file}", line {match["line"]}, in {match["function"]}')
    return tuple(reversed(frames))


def _frames(lines: Sequence[str]) -> Iterator[_TracebackFrame]:
    """Yield the frames of a traceback that are not Launcher's."""
    frames: list[tuple[str, list[str]]] = []
    for line in lines:
        match = FRAME.match(line)
        if match is not None:
            file = _PACKAGES.sub("", in_source(match["file"]))
            where = f'  File "{file}", line {match["line"]}{match["rest"]}'
            frames.append((match["file"], [where]))
        elif not line.startswith(" ") or not frames:
            break  # the error, below the frames
        elif line.strip() and not is_marks(line):
            frames[-1][1].append(f"    {line.strip()}")
    for file, block in frames:
        if not _OWN.search(file):
            yield _TracebackFrame(file=file, lines=tuple(block))
