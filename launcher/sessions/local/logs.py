"""The logs of a local job: one file per host, to which the host itself appends."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from launcher.errors import PlatformError
from launcher.sessions.base import LogStream
from launcher.sessions.local import description
from launcher.sessions.local.cluster import Host, host_number
from launcher.sessions.local.folder import JobFolder

_SUFFIX = ".log"
#: A reader asks again for the rest; so no answer is larger than this.
_CHUNK_BYTES = 1 << 20


def new_log_files(folder: JobFolder, hosts: Iterable[Host], now: float) -> dict[Host, Path]:
    """A new log for each host that starts now: algo-1-<seconds since the epoch>.

    Each attempt at a job has logs of its own, also within one second.
    """
    started = int(now)
    while any(folder.logs.glob(f"*-{started}{_SUFFIX}")):
        started += 1
    return {host: folder.logs / f"{host.name}-{started}{_SUFFIX}" for host in hosts}


def log_streams(folder: JobFolder) -> list[LogStream]:
    """The streams that exist, by host in numeric order and then by age."""
    streams = [
        LogStream(name=path.stem, host=path.stem.rpartition("-")[0])
        for path in folder.logs.glob(f"*{_SUFFIX}")
    ]
    return sorted(streams, key=lambda stream: (host_number(stream.host), stream.name))


def read_log(folder: JobFolder, stream: str, position: int) -> tuple[list[str], int]:
    """The complete lines after a position, and the position after them.

    At the end of a job its last line is complete, with or without an end of line. Raises
    PlatformError when the job has no such stream.
    """
    names = [each.name for each in log_streams(folder)]
    if stream not in names:
        raise PlatformError(f"job {folder.name} has no log stream {stream!r}: it has {names}")
    # Before the file is read: when the status is terminal, the file does not grow any more.
    is_over = description.is_terminal(folder.status())
    return read_lines(folder, stream, position, is_over=is_over)


def read_lines(
    folder: JobFolder, stream: str, position: int, *, is_over: bool
) -> tuple[list[str], int]:
    """As `read_log`, by one who knows whether the hosts have ended."""
    with (folder.logs / f"{stream}{_SUFFIX}").open("rb") as file:
        file.seek(position)
        chunk = file.read(_CHUNK_BYTES)
    is_last = is_over and len(chunk) < _CHUNK_BYTES
    end = len(chunk) if is_last else _end_of_lines(chunk)
    return _lines(chunk[:end]), position + end


def _end_of_lines(chunk: bytes) -> int:
    """Where the last complete line ends; a line longer than a chunk is cut there."""
    end = chunk.rfind(b"\n") + 1
    return len(chunk) if end == 0 and len(chunk) == _CHUNK_BYTES else end


def _lines(content: bytes) -> list[str]:
    if not content:
        return []
    return [
        line.removesuffix(b"\r").decode(errors="replace")
        for line in content.removesuffix(b"\n").split(b"\n")
    ]
