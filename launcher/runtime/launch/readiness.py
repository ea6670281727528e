"""Readiness probes of a program: it listens on a port, has written a file, or runs long enough."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from launcher.shared import Ready, descendants

#: The state LISTEN in /proc/net/tcp (include/net/tcp_states.h).
_LISTEN = "0A"


@dataclass(frozen=True, kw_only=True)
class ReadinessProbe:
    """A readiness check. missing: what the program has not done while it is not ready."""

    is_ready: Callable[[], bool]
    missing: str


def create_probe(ready: Ready | None, folder: Path) -> ReadinessProbe:
    """Create the probe. Call it before the program starts as a descendant of this process.

    folder: the base of a relative path.
    """
    if ready is None:
        return ReadinessProbe(is_ready=lambda: True, missing="")
    if ready.port is not None:
        return _port_probe(ready.port)
    if ready.file is not None:
        return _file_probe(folder / ready.file)
    return _time_probe(ready.seconds or 0)


def _port_probe(port: int) -> ReadinessProbe:
    def is_ready() -> bool:
        listeners = _listeners(port)
        return bool(listeners) and not listeners.isdisjoint(_sockets(descendants(os.getpid())))

    return ReadinessProbe(is_ready=is_ready, missing=f"it does not listen on port {port}")


def _file_probe(path: Path) -> ReadinessProbe:
    before = _file_version(path)  # a file left by an earlier run does not count
    return ReadinessProbe(
        is_ready=lambda: _file_version(path) not in (None, before),
        missing=f"it has not written {path}",
    )


def _time_probe(seconds: int) -> ReadinessProbe:
    start = time.monotonic()
    return ReadinessProbe(
        is_ready=lambda: time.monotonic() - start >= seconds,
        missing=f"it has not run for {seconds} s",
    )


def _file_version(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _listeners(port: int) -> set[str]:
    """Return the inodes of the sockets that listen on a port, on any address.

    Hosts that share a machine share this list, and a connection could reach another host's program.
    """
    return {
        fields[9]
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        for fields in _rows(Path(table))
        if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port
    }


def _rows(table: Path) -> Iterator[list[str]]:
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:  # a kernel without IPv6
        return
    yield from (line.split() for line in lines)


def _sockets(pids: Iterable[int]) -> Iterator[str]:
    """Yield the inodes of the sockets that processes hold."""
    for pid in pids:
        for entry in _entries(Path(f"/proc/{pid}/fd")):
            if entry.startswith("socket:["):
                yield entry[len("socket:[") : -1]


def _entries(folder: Path) -> list[str]:
    """Return the targets of a folder's links; a process or a link may vanish at any time."""
    try:
        return [os.readlink(entry) for entry in folder.iterdir()]  # noqa: PTH115 - not a path
    except OSError:
        return []
