"""What jobs might leave on a machine, counted before and after."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

_LISTENING = "0A"


Things = dict[str, set[str]]


def inventory(home: Path, *, of_the_machine: bool) -> Things:
    """Everything that the jobs of a home may take and have to give back.

    of_the_machine: count also what cannot be told from that of other jobs which run just now.
    """
    own = {
        "processes": set(_processes_of_jobs(home)),
        "mounts": set(Path("/proc/self/mounts").read_text().splitlines()),
        "temporary folders": {path.name for path in Path(tempfile.gettempdir()).iterdir()},
        "open descriptors": {entry.name for entry in Path("/proc/self/fd").iterdir()},
    }
    if not of_the_machine:
        return own
    return own | {
        "shared memory": {path.name for path in Path("/dev/shm").iterdir()},
        "listening ports": set(_listening_ports()),
        "abstract sockets": set(_abstract_sockets()),
        "network namespaces": set(_network_namespaces()),
    }


def newly(now: Things, before: Things) -> Things:
    """What is there now and was not there before, by kind; empty kinds are left out."""
    return {kind: now[kind] - before[kind] for kind in now if now[kind] - before[kind]}


def _processes_of_jobs(home: Path) -> Iterator[str]:
    for entry in _processes():
        with contextlib.suppress(OSError):  # it may end meanwhile
            command, variables = _read(entry / "cmdline"), _read(entry / "environ")
            if str(home) in command or f"LAUNCHER_LOCAL_HOST={home}" in variables:
                yield f"{entry.name} {command[:100]}"


def _network_namespaces() -> Iterator[str]:
    for entry in _processes():
        with contextlib.suppress(OSError):  # it may end meanwhile
            yield str((entry / "ns" / "net").readlink())


def _listening_ports() -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            _, address, _, state = line.split()[:4]
            if state == _LISTENING:
                yield address


def _abstract_sockets() -> Iterator[str]:
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        if "@launcher-" in line:
            yield line.split()[-1]


def _processes() -> Iterator[Path]:
    own = str(os.getpid())
    return (
        entry for entry in Path("/proc").iterdir() if entry.name.isdigit() and entry.name != own
    )


def _read(path: Path) -> str:
    return path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
