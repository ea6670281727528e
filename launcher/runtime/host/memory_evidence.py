"""Evidence for what SIGKILL meant: the kernel sends it when memory runs out, and others as well."""

from __future__ import annotations

import resource
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
#: With more in use, memory was about to run out: what a dead process had is counted as its peak.
_SHORT = 0.9
_GIB = 1 << 30


def sigkill_words() -> str:
    """Return what is known of the memory of this host when one of its processes got SIGKILL."""
    if _kills() > _KILLS_BEFORE:
        return "the kernel's OOM killer: memory ran out"
    figures = _in_use_and_limit()
    if figures is None:
        return "how much memory was in use is not known"
    used, limit = figures
    state = "short" if used >= _SHORT * limit else "not short"
    return f"memory was {state}: {used / _GIB:.1f} of {limit / _GIB:.1f} GiB in use"


def _kills() -> int:
    """Return how many processes the kernel has killed for memory: in this container, or here."""
    for file in (*_files("memory.events"), *_files("memory.oom_control"), Path("/proc/vmstat")):
        if (count := _numbers(file).get("oom_kill")) is not None:
            return count
    return 0


def _in_use_and_limit() -> tuple[int, int] | None:
    """Return the bytes in use, with the peak of the largest child that has ended, and the limit."""
    machine = _numbers(Path("/proc/meminfo"))
    if not {"MemTotal:", "MemAvailable:"} <= machine.keys():
        return None
    limit = machine["MemTotal:"] * 1024
    used = limit - machine["MemAvailable:"] * 1024
    for name, now in (("memory.max", "memory.current"), ("limit_in_bytes", "usage_in_bytes")):
        for file, other in zip(_files(name), _files(now), strict=True):
            most, current = _number(file), _number(other)
            if most is not None and current is not None and most < limit:
                used, limit = current, most
    ended = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return min(used + ended, limit), limit


def _files(name: str) -> list[Path]:
    """Return the places of a file of this process's control group, of version 2 and then 1."""
    old = name if name.startswith("memory.") else f"memory.{name}"
    own = {kinds: path.strip("/") for kinds, path in _own_groups()}
    return [
        _CGROUPS / own.get("", "") / name,
        _CGROUPS / name,
        _CGROUPS / "memory" / own.get("memory", "") / old,
        _CGROUPS / "memory" / old,
    ]


def _own_groups() -> list[tuple[str, str]]:
    lines = _text(Path("/proc/self/cgroup")).splitlines()
    parts = [line.split(":", 2) for line in lines]
    return [(kind, each[2]) for each in parts if len(each) == 3 for kind in each[1].split(",")]


def _numbers(file: Path) -> dict[str, int]:
    """Return the first number after each word that begins a line."""
    parts = [line.split() for line in _text(file).splitlines()]
    return {each[0]: int(each[1]) for each in parts if len(each) > 1 and each[1].isdigit()}


def _number(file: Path) -> int | None:
    text = _text(file).strip()
    return int(text) if text.isdigit() else None


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, ValueError):  # no Linux, another version, or a container without it
        return ""


#: The count when this host started.
_KILLS_BEFORE = _kills()
