"""A local job's logs: each host's printed lines and its events, both still growing."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from launcher.client.sessions.base import LogEvent, LogStream
from launcher.client.sessions.local.host.line_times import LineTimes
from launcher.client.sessions.local.job import job_description
from launcher.client.sessions.local.job.job_folder import LOG_SUFFIX, JobFolder
from launcher.client.sessions.local.job.job_hosts import LocalHost, host_number
from launcher.errors import PlatformError

#: Largest amount read at once; a reader calls again for more.
_CHUNK_BYTES = 1 << 20


def new_streams(folder: JobFolder, hosts: Iterable[LocalHost], now: float) -> dict[LocalHost, str]:
    """Return a new stream for each host that starts now: algo-1-<seconds since the epoch>.

    Each attempt at a job has its own logs, even if two start within one second.
    """
    started = int(now)
    while any(folder.logs.glob(f"*-{started}{LOG_SUFFIX}")):
        started += 1
    return {host: f"{host.name}-{started}" for host in hosts}


def log_streams(folder: JobFolder) -> list[LogStream]:
    """Return the existing streams, by host in numeric order and then by age."""
    streams = [
        LogStream(name=path.stem, host=path.stem.rpartition("-")[0])
        for path in folder.logs.glob(f"*{LOG_SUFFIX}")
    ]
    return sorted(streams, key=lambda stream: (host_number(stream.host), stream.name))


def log_files(folder: JobFolder) -> list[Path]:
    """Return the existing files with lines: of each stream its log, and its events if it has any.

    The jobs of older versions have no files of events: theirs are in the logs.
    """
    files = [
        path
        for stream in log_streams(folder)
        for path in (folder.log(stream.name), folder.events(stream.name))
    ]
    return [path for path in files if path.exists()]


def stream_bytes(folder: JobFolder, stream: str) -> int:
    """Return the size of a stream; compare it with `bytes_before` a position."""
    paths = (folder.log(stream), folder.events(stream))
    return sum(path.stat().st_size for path in paths if path.exists())


def bytes_before(position: str | None) -> int:
    """Return how much of a stream is before a position."""
    return sum(_offsets(position))


def read_log(
    folder: JobFolder, stream: str, position: str | None, limit: int
) -> tuple[list[LogEvent], str]:
    """Return the complete lines after a position, at most `limit`, and the position after them.

    What a host printed and its events are merged by time. Once a job has ended, its last line is
    complete with or without an end of line. Raises PlatformError when the job has no such stream.
    """
    if not folder.log(stream).exists():
        names = [each.name for each in log_streams(folder)]
        raise PlatformError(
            f"job {folder.name} has no log stream {stream!r}; its streams are {names}"
        )
    # Checked before the files are read: after a terminal status, they do not grow any more.
    is_over = job_description.is_terminal(folder.status())
    start, start_of_events = _offsets(position)
    printed = _timed(folder.log(stream), start, limit, is_over=is_over)
    events = _timed(folder.events(stream), start_of_events, limit, is_over=is_over)
    lines = list(itertools.islice(_merged(printed, events), limit))
    end, end_of_events = (
        max((line.end for line in lines if line.path is file.path), default=file.start)
        for file in (printed, events)
    )
    return [LogEvent(line.time, line.text) for line in lines], f"{end}+{end_of_events}"


def read_lines(path: Path, position: int, *, is_over: bool) -> tuple[list[str], int]:
    """Return the lines after a byte position and where they end; `is_over`: no host is running."""
    lines = _raw_lines(path, position, is_over=is_over)
    return [_text(line) for line in lines], position + sum(map(len, lines))


def _offsets(position: str | None) -> tuple[int, int]:
    """Return the offset in the log, and in the events."""
    printed, _, events = (position or "").partition("+")
    return int(printed or 0), int(events or 0)


class _TimedLine(NamedTuple):
    """A line of a file, when it was written, and where it ends."""

    path: Path
    time: float
    text: str
    end: int


@dataclass(frozen=True, kw_only=True)
class _TimedLines:
    """Lines of a file from `start` on; is_cut: others follow that exist already."""

    path: Path
    start: int
    lines: list[_TimedLine]
    is_cut: bool


def _timed(path: Path, start: int, limit: int, *, is_over: bool) -> _TimedLines:
    """Return at most `limit` lines, as no reader gets more of them."""
    if not path.exists():
        return _TimedLines(path=path, start=start, lines=[], is_cut=False)
    times = LineTimes(path)
    known = None if is_over else max(0, times.known_bytes - start)
    end, lines = start, []
    raw = _raw_lines(path, start, is_over=is_over, at_most=known)
    for line in raw[:limit]:
        end += len(line)
        lines.append(_TimedLine(path, times.written_at(end), _text(line), end))
    readable = path.stat().st_size - start if known is None else known
    is_cut = bool(lines) and (len(raw) > limit or readable > _CHUNK_BYTES)
    return _TimedLines(path=path, start=start, lines=lines, is_cut=is_cut)


def _merged(*files: _TimedLines) -> Iterator[_TimedLine]:
    """Yield the lines by time, up to the moment at which the first file is cut."""
    until = min((file.lines[-1].time for file in files if file.is_cut), default=float("inf"))
    lines = itertools.chain.from_iterable(file.lines for file in files)
    merged = sorted(lines, key=attrgetter("time"))  # fast: each file's lines are in order
    return itertools.takewhile(lambda line: line.time <= until, merged)


def _raw_lines(
    path: Path, position: int, *, is_over: bool, at_most: int | None = None
) -> list[bytes]:
    """Return complete lines with their line ends; a line longer than a chunk is cut there."""
    size = _CHUNK_BYTES if at_most is None else min(_CHUNK_BYTES, at_most)
    with path.open("rb") as file:
        file.seek(position)
        chunk = file.read(size)
    *lines, rest = chunk.split(b"\n")
    complete = [line + b"\n" for line in lines]
    is_last = is_over and len(chunk) < _CHUNK_BYTES
    is_longer_than_a_chunk = not lines and len(chunk) == _CHUNK_BYTES
    return [*complete, rest] if rest and (is_last or is_longer_than_a_chunk) else complete


def _text(line: bytes) -> str:
    return line.removesuffix(b"\n").removesuffix(b"\r").decode(errors="replace")
