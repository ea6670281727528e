"""What a job may leave behind on this machine, looked for from outside."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from containers import left_of

from launcher.client.sessions import HOST_VARIABLE
from launcher.shared import ADDRESSES_VARIABLE, PORT_BASE_VARIABLE

_SHM = Path("/dev/shm")
_PORTS = 64
_LISTENS = "0A"


def variables(pid: int) -> dict[str, str]:
    """The environment of a process; empty when it is gone."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in raw.split("\0") if "=" in entry)


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def parent(pid: int) -> int:
    """The parent of a living process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


@dataclass(frozen=True, kw_only=True)
class Traces:
    """Where to look for the remains of one job; taken while it runs.

    shm: what lay in /dev/shm before the job.
    """

    folder: Path
    scratch: Path
    addresses: frozenset[str]
    ports: range
    shm: frozenset[str]

    @classmethod
    def of(cls, folder: Path, shm: frozenset[str]) -> Traces | None:
        """The traces of a job one of whose hosts is there; None before that."""
        for pid in processes_of(folder):
            env = variables(pid)
            shares_network = ADDRESSES_VARIABLE in env
            if (shares_network or _has_own_network(pid)) and (folder / "scratch").is_symlink():
                base = int(env[PORT_BASE_VARIABLE]) if shares_network else 0
                return cls(
                    folder=folder,
                    scratch=(folder / "scratch").readlink(),
                    addresses=frozenset(json.loads(env.get(ADDRESSES_VARIABLE, "{}")).values()),
                    ports=range(base, base + _PORTS if shares_network else 0),
                    shm=shm,
                )
        return None

    def remains(self) -> list[str]:
        """Everything of the job that is still there, in words."""
        return [
            *(f"process {pid}: {command(pid)}" for pid in processes_of(self.folder)),
            *(f"listening port {where}" for where in self._listeners()),
            *(f"shared memory {name}" for name in self._segments()),
            *(f"mount {line}" for line in mounts() if f"{self.folder}/" in line),
            *(f"folder {path}" for path in (self.scratch,) if path.exists()),
            *(f"file {path}" for path in self._files()),
            *(f"container or network {each}" for each in self._of_engine()),
        ]

    def _files(self) -> list[Path]:
        left = [self.folder / "scratch", self.folder / "reserve"]
        return [path for path in left if path.exists() or path.is_symlink()]

    def _of_engine(self) -> list[str]:
        settings = json.loads((self.folder / "settings.json").read_text())
        return left_of(self.folder) if settings["container"] else []

    def _listeners(self) -> Iterator[str]:
        """Sockets on the job's ports; another job that took the ports over names itself."""
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            fields = line.split()
            host, _, port = fields[1].partition(":")
            address = ".".join(str(byte) for byte in reversed(bytes.fromhex(host)))
            ours = address in self.addresses or address == "0.0.0.0"
            if fields[3] == _LISTENS and ours and int(port, 16) in self.ports:
                holders = [pid for pid in pids() if _holds(pid, f"socket:[{fields[9]}]")]
                if not any(HOST_VARIABLE in variables(pid) for pid in holders):
                    yield f"{address}:{int(port, 16)} of {holders}"

    def _segments(self) -> Iterator[str]:
        """New segments that no living process has open: those of others are in use."""
        for name in sorted(segments() - self.shm):
            if not any(_maps(pid, name) for pid in pids()):
                yield name


def _has_own_network(pid: int) -> bool:
    """Return whether a process has a network that ends with it, and its listeners too."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    return False


def processes_of(folder: Path) -> list[int]:
    """The processes of a job's hosts."""
    return [pid for pid in pids() if variables(pid).get(HOST_VARIABLE, "").startswith(f"{folder}/")]


def segments() -> frozenset[str]:
    """What lies in /dev/shm, without the semaphores of other programs and Podman's own locks."""
    names = (entry.name for entry in _SHM.iterdir())
    return frozenset(name for name in names if not name.startswith(("sem.", "libpod_")))


def mounts() -> list[str]:
    return Path("/proc/mounts").read_text().splitlines()


def _holds(pid: int, link: str) -> bool:
    with contextlib.suppress(OSError):
        return any(str(entry.readlink()) == link for entry in Path(f"/proc/{pid}/fd").iterdir())
    return False


def _maps(pid: int, name: str) -> bool:
    with contextlib.suppress(OSError):
        if f"{_SHM}/{name}" in Path(f"/proc/{pid}/maps").read_text():
            return True
    return _holds(pid, f"{_SHM}/{name}")
