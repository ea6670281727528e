"""Facts about the host's machine, which differ from machine to machine."""

from __future__ import annotations

import os
import platform
import resource
import shutil
import subprocess
from pathlib import Path
from typing import Any

_LIMITS = ("NOFILE", "NPROC", "MEMLOCK", "STACK", "CORE", "AS")
_CGROUP = Path("/sys/fs/cgroup")


def collect(root: Path) -> dict[str, Any]:
    """Collect CPUs, memory, accelerators, limits, mounts, and the user; sizes in bytes."""
    return {
        "cpus": {"machine": os.cpu_count(), "ours": len(os.sched_getaffinity(0))},
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "cgroup": {name: _text(_CGROUP / name) for name in ("cpu.max", "memory.max", "pids.max")},
        "accelerators": _accelerators(),
        "shm": _size(Path("/dev/shm")),
        "disk": _size(root),
        "limits": {
            name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in _LIMITS
        },
        "user": {"uid": os.getuid(), "gid": os.getgid(), "groups": os.getgroups()},
        "python": platform.python_version(),
        "kernel": platform.release(),
        "distribution": _distribution(),
        "programs": {name: shutil.which(name) for name in ("mpirun", "sshd", "torchrun", "ip")},
        "interfaces": sorted(path.name for path in Path("/sys/class/net").glob("*")),
        "mounts": _mounts(root),
    }


def _size(folder: Path) -> dict[str, int] | None:
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None
    return {"total": usage.total, "free": usage.free}


def _accelerators() -> list[str]:
    try:
        listed = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    # "GPU 0: Tesla T4 (UUID: GPU-...)": drop the identifier, which is private
    return [line.partition(" (UUID")[0] for line in listed.stdout.splitlines()]


def _mounts(root: Path) -> list[str]:
    """List the mounts at and below the ML root, and at /dev/shm: path, file system, ro or rw.

    A mount hidden by another at the same path is not listed.
    """
    lines = [line.split() for line in _text(Path("/proc/self/mounts")).splitlines()]
    visible = {
        place: f"{place} {kind} {options[:2]}"
        for _, place, kind, options, *_ in lines
        if place == "/dev/shm" or Path(place).is_relative_to(root)
    }
    return sorted(visible.values())


def _distribution() -> str:
    lines = _text(Path("/etc/os-release")).splitlines()
    named = (line.partition("=")[2].strip('"') for line in lines if line.startswith("PRETTY_NAME="))
    return next(named, "")


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
