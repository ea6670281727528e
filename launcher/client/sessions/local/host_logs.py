"""The logs of a local job: one file per host, to which the host itself appends."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from launcher.client.sessions.base import LogEvent, LogStream
from launcher.client.sessions.local import job_description
from launcher.client.sessions.local.job_folder import LOG_SUFFIX, JobFolder
from launcher.client.sessions.local.line_times import LineTimes
from launcher.client.sessions.local.local_hosts import LocalHost, host_number
from launcher.errors import PlatformError

#: Largest amount read at once; a reader calls again for more.
_CHUNK_BYTES = 1 << 20


def new_log_files(
    folder: JobFolder, hosts: Iterable[LocalHost], now: float
) -> dict[LocalHost, Path]:
    """Return a new log for each host that starts now: algo-1-<seconds since the epoch>.

    Each attempt at a job has its own logs, even if two start within one second.
    """
    started = int(now)
    while any(folder.logs.glob(f"*-{started}{LOG_SUFFIX}")):
        started += 1
    return {host: folder.log(f"{host.name}-{started}") for host in hosts}


def log_streams(folder: JobFolder) -> list[LogStream]:
    """Return the existing streams, by host in numeric order and then by age."""
    streams = [
        LogStream(name=path.stem, host=path.stem.rpartition("-")[0])
        for path in folder.logs.glob(f"*{LOG_SUFFIX}")
    ]
    return sorted(streams, key=lambda stream: (host_number(stream.host), stream.name))


def read_log(
    folder: JobFolder, stream: str, position: str | None, limit: int
) -> tuple[list[LogEvent], str]:
    """Return the complete lines after a position, at most `limit`, and the position after them.

    Once a job has ended, its last line is complete with or without an end of line. Raises
    PlatformError when the job has no such stream.
    """
    if not folder.log(stream).exists():
        names = [each.name for each in log_streams(folder)]
        raise PlatformError(
            f"job {folder.name} has no log stream {stream!r}; its streams are {names}"
        )
    # Checked before the file is read: after a terminal status, the file does not grow any more.
    is_over = job_description.is_terminal(folder.status())
    times = LineTimes(folder.log(stream))
    end = int(position or 0)
    timed = None if is_over else max(0, times.known_bytes - end)
    events = []
    for line in _raw_lines(folder, stream, end, is_over=is_over, at_most=timed)[:limit]:
        end += len(line)
        events.append(LogEvent(times.written_at(end), _text(line)))
    return events, str(end)


def read_lines(
    folder: JobFolder, stream: str, position: int, *, is_over: bool
) -> tuple[list[str], int]:
    """Return the lines after a byte position and where they end; `is_over`: no host is running."""
    lines = _raw_lines(folder, stream, position, is_over=is_over)
    return [_text(line) for line in lines], position + sum(map(len, lines))


def _raw_lines(
    folder: JobFolder, stream: str, position: int, *, is_over: bool, at_most: int | None = None
) -> list[bytes]:
    """Return complete lines with their line ends; a line longer than a chunk is cut there."""
    size = _CHUNK_BYTES if at_most is None else min(_CHUNK_BYTES, at_most)
    with folder.log(stream).open("rb") as file:
        file.seek(position)
        chunk = file.read(size)
    *lines, rest = chunk.split(b"\n")
    complete = [line + b"\n" for line in lines]
    is_last = is_over and len(chunk) < _CHUNK_BYTES
    is_longer_than_a_chunk = not lines and len(chunk) == _CHUNK_BYTES
    return [*complete, rest] if rest and (is_last or is_longer_than_a_chunk) else complete


def _text(line: bytes) -> str:
    return line.removesuffix(b"\n").removesuffix(b"\r").decode(errors="replace")
