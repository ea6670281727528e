"""The processes of a job's data engine, for tests that kill them."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from hosts import Hosts

WORKER, DISPATCHER = "launcher.data.worker", "launcher.data.dispatcher"
_TF_SERVERS = "launcher.data.tf.servers"


def processes(hosts: Hosts, module: str, host: str | None = None) -> list[int]:
    """The processes that run a module, of all hosts or of one."""
    return [pid for pid in sorted(hosts.processes(host)) if module in _words(pid)]


def tf_servers(hosts: Hosts, role: str, host: str | None = None) -> list[int]:
    """The processes that serve a role of tf.data's service: forks of one that supervises them."""
    found = []
    for pid in sorted(hosts.processes(host)):
        with contextlib.suppress(OSError):
            words = _words(pid)
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            if _TF_SERVERS in words and words[-2].startswith(f'{{"{role}"'):
                found += [pid] if _TF_SERVERS in _words(parent) else []
    return found


def _words(pid: int) -> list[str]:
    """The command line of a process; nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return []


def kill(*pids: int) -> None:
    """SIGKILL; one that is not there has been killed before."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
