"""Process trees, found by their environment: what they have used, and their end."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Tree:
    """All processes that were started with these variables, forked children included."""

    variables: frozenset[str]

    @classmethod
    def of(cls, **variables: str) -> Tree:
        return cls(frozenset(f"{name}={value}" for name, value in variables.items()))

    def pids(self) -> list[int]:
        wanted = {variable.encode() for variable in self.variables}
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):  # it has ended meanwhile
                    if wanted <= set((entry / "environ").read_bytes().split(b"\0")):
                        found.append(int(entry.name))
        return found

    def cpu_seconds(self) -> Counter[str]:
        """User and kernel time by the programs that run, with that of children that have ended."""
        used: Counter[str] = Counter()
        for pid in self.pids():
            used[_program(pid)] += cpu_seconds(pid)
        return used

    def kill(self) -> None:
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def cpu_seconds(pid: int) -> float:
    """User and kernel time of a process and of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS  # utime, stime, cutime, cstime (proc(5))


def command_of(pid: int) -> str:
    """The command line of a process; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def running_module(pids: Iterable[int], module: str) -> list[int]:
    """Those processes that run `python -m module`."""
    return [pid for pid in pids if f"-m {module} " in command_of(pid)]


def memory_bytes(pids: Iterable[int]) -> int:
    """Memory of processes: private memory, their share of files, and all shared memory in full.

    Pages of libraries are shared with every other Python on the host; shared memory that holds
    batches is counted as a whole, though ranks look at it too.
    """
    return sum(map(_memory_bytes, pids))


def _program(pid: int) -> str:
    """The last word of the module or the script that a Python runs: "receiver"."""
    words = [word for word in command_of(pid).split()[1:] if not word.startswith("-")]
    return words[0].removesuffix(".py").replace("/", ".").rpartition(".")[2] if words else "?"


def _memory_bytes(pid: int) -> int:
    rollup = _kilobytes(Path(f"/proc/{pid}/smaps_rollup"))
    shared = _kilobytes(Path(f"/proc/{pid}/status"))["RssShmem"]
    return 1024 * (rollup["Pss_Anon"] + rollup["Pss_File"] + shared)


def _kilobytes(path: Path) -> dict[str, int]:
    lines = (line.split() for line in path.read_text().splitlines())
    return {line[0][:-1]: int(line[1]) for line in lines if len(line) == 3 and line[2] == "kB"}
