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
    return [pid for pid in _of_tf(hosts, role, host) if _TF_SERVERS in _words(_parent(pid))]


def tf_parents(hosts: Hosts, role: str, host: str | None = None) -> list[int]:
    """The processes that supervise the servers of a role, one on each of their hosts."""
    return [pid for pid in _of_tf(hosts, role, host) if _TF_SERVERS not in _words(_parent(pid))]


def _of_tf(hosts: Hosts, role: str, host: str | None) -> list[int]:
    words_of = {pid: _words(pid) for pid in sorted(hosts.processes(host))}
    return [
        pid
        for pid, words in words_of.items()
        if _TF_SERVERS in words and words[-2].startswith(f'{{"{role}"')
    ]


def _parent(pid: int) -> int:
    """The parent of a process; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


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
