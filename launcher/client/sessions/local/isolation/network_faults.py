"""Fault injection for isolation `network`: cut, restore or slow a running host's link.

A link is cut at the bridge: the host keeps its address, what it sends is lost silently, and
nothing reaches it. For tests of how programs react.
"""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path

from launcher.client.sessions.local.host.process_tree import processes_of_host
from launcher.client.sessions.local.isolation import namespaces
from launcher.client.sessions.local.isolation.namespaces import Namespace
from launcher.client.sessions.local.job.job_folder import JobFolder
from launcher.errors import PlatformError
from launcher.shared import living_children

__all__ = ["cut", "restore", "slow"]


def cut(folder: JobFolder, host: str) -> None:
    """Cut a running host ("algo-1") off from all others; raise PlatformError if it has no cable."""
    _change(folder, "ip", "link", "set", host, "down")


def restore(folder: JobFolder, host: str) -> None:
    """Reconnect a host that was cut off."""
    _change(folder, "ip", "link", "set", host, "up")


def slow(folder: JobFolder, host: str, *, megabits: float) -> None:
    """Limit the rate at which a host receives; packets that would queue over 200 ms are dropped."""
    shape = ("tbf", "rate", f"{round(1e6 * megabits)}bit", "burst", "32kbit", "latency", "200ms")
    _change(folder, "tc", "qdisc", "replace", "dev", host, "root", *shape)


def _change(folder: JobFolder, *command: str) -> None:
    """Run an iproute2 command in the job's outer network."""
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=partial(_join_network_of, _platform_of(folder)),
    )
    if result.returncode != 0:
        raise PlatformError(f"{' '.join(command)}: {result.stderr.strip()}")


def _platform_of(folder: JobFolder) -> int:
    """Return the process that started the job's hosts; it is in the outer network."""
    hosts = set(processes_of_host(folder.hosts))
    for parent, children in living_children().items():
        if parent not in hosts and hosts.intersection(children):
            return parent
    raise PlatformError(f"no host of job {folder.name!r} runs, so it has no link")


def _join_network_of(pid: int) -> None:
    own, theirs = Path("/proc/self/ns/user"), Path(f"/proc/{pid}/ns/user")
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if own.readlink() != theirs.readlink():  # root created none; re-entering one's own is refused
        namespaces.join(os.open(theirs, os.O_RDONLY), Namespace.USER)
    namespaces.join(network, Namespace.NET)
