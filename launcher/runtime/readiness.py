"""The signals by which a program shows that it is ready: a port, a file, or elapsed time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from launcher.shared import Ready
from launcher.shared.process_table import descendants

#: The state LISTEN in /proc/net/tcp (include/net/tcp_states.h).
_LISTEN = "0A"


@dataclass(frozen=True, kw_only=True)
class ReadinessProbe:
    """A readiness signal. is_shown: true once it is given; lack: what is missing until then."""

    is_shown: Callable[[], bool]
    lack: str


def sign_of(ready: Ready | None, folder: Path) -> ReadinessProbe:
    """Create the signal to wait for, before the program starts as a descendant of this process.

    folder: the base of a relative path.
    """
    if ready is None:
        return ReadinessProbe(is_shown=lambda: True, lack="")
    if ready.port is not None:
        return _port_sign(ready.port)
    if ready.file is not None:
        return _file_sign(folder / ready.file)
    return _time_sign(ready.seconds or 0)


def _port_sign(port: int) -> ReadinessProbe:
    def is_shown() -> bool:
        listeners = _listeners(port)
        return bool(listeners) and not listeners.isdisjoint(_sockets(descendants(os.getpid())))

    return ReadinessProbe(is_shown=is_shown, lack=f"it does not listen on port {port}")


def _file_sign(path: Path) -> ReadinessProbe:
    before = _stamp(path)  # a file left by an earlier run does not count
    return ReadinessProbe(
        is_shown=lambda: _stamp(path) not in (None, before), lack=f"it has not written {path}"
    )


def _time_sign(seconds: int) -> ReadinessProbe:
    start = time.monotonic()
    return ReadinessProbe(
        is_shown=lambda: time.monotonic() - start >= seconds,
        lack=f"it has not run for {seconds} s",
    )


def _stamp(path: Path) -> tuple[int, int] | None:
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
