"""Check early that a train host has the memory and file descriptors that its batches need."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from launcher.errors import DataError
from launcher.runtime import emit
from launcher.shared import PREFETCH_SHARE

#: Descriptors a receiver has open besides slabs and connections: modules, sockets, logs.
_OWN_DESCRIPTORS = 64
#: Minimum number of descriptors for the batches and connections of a small job.
_LEAST_DESCRIPTORS = 256
_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),  # version 2
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),  # version 1
)


def memory_bytes(cgroup_limits: tuple[Path, ...] = _CGROUP_LIMITS) -> int:
    """Return the memory of this host, or of the container it runs in."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    texts = [path.read_text().strip() for path in cgroup_limits if path.exists()]
    return min([whole, *(int(text) for text in texts if text.isdigit())])


def check_memory(prefetch_bytes: int, memory: int) -> None:
    """Raise DataError if the prefetch cannot fit in memory; warn if it leaves little.

    Slabs count towards the container's memory, not towards the size of /dev/shm.
    """
    text = f"prefetch_bytes is {prefetch_bytes}, and this host has {memory} bytes of memory"
    if prefetch_bytes >= memory:
        raise DataError(f"{text}: lower data_service.prefetch_bytes")
    if prefetch_bytes > PREFETCH_SHARE * memory:
        emit("memory_low", why=f"{text}: little is left for the script")


def check_descriptors() -> None:
    """Raise DataError if this process may open too few files for slabs and connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _LEAST_DESCRIPTORS + _OWN_DESCRIPTORS:
        raise DataError(
            f"this process may open {soft} files (at most {hard}), and the data service needs "
            f"{_LEAST_DESCRIPTORS + _OWN_DESCRIPTORS} or more: raise the limit (ulimit -n, or "
            "nofile in the container's ulimits)"
        )
