"""The servers of tf.data's service on one host: `python -m launcher.data.tf.servers ROLE`.

ROLE is JSON: {"dispatcher": {port, journal, workers}} or {"workers": {dispatcher, addresses}}. This
process imports TensorFlow once, and each server is a fork of it: another import takes 2 to 10 s,
in which ranks would wait, and a fork 50 ms. TensorFlow starts no thread before the first server.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from launcher.runtime import (
    CLOSE_SIGNAL,
    CRASH_LIMIT,
    CRASH_WINDOW,
    GAVE_UP,
    describe_exit,
    emit,
    recent_crashes,
)

_PR_SET_PDEATHSIG = 1
#: Milliseconds for which a worker tries to reach the dispatcher, whose host may start much later.
_FIRST_CONTACT_MS = 3_600_000
#: Milliseconds between two heartbeats of a worker.
_HEARTBEAT_MS = 1000

Serve = Callable[[], object]


def main(role: str) -> int:
    """Run the servers of a role until the host closes them; return GAVE_UP if one keeps dying."""
    signal.signal(CLOSE_SIGNAL, _leave)
    servers = ForkedServers(_servers_of(json.loads(role)))
    return servers.supervise()


def _leave(_number: int, _frame: object) -> NoReturn:
    os._exit(0)  # the forks get SIGKILL from the kernel


class ForkedServers:
    """Server processes by name, each a fork of this process that is replaced when it dies."""

    def __init__(self, servers: dict[str, Serve]) -> None:
        self._servers = servers
        self._crashes: dict[str, list[float]] = {name: [] for name in servers}

    def supervise(self) -> int:
        """Replace servers that die; return GAVE_UP when one has died too often."""
        running = dict(map(self._start, self._servers))
        while True:
            pid, status = os.wait()
            name = running.pop(pid)
            how = describe_exit(os.waitstatus_to_exitcode(status))
            crashes = self._crashes[name] = recent_crashes(self._crashes[name], time.monotonic())
            emit("tf_server_died", server=name, pid=pid, how=how)
            if len(crashes) > CRASH_LIMIT:
                sys.stderr.write(
                    f"{name} died {len(crashes)} times within {CRASH_WINDOW:.0f} s, last: {how}\n"
                )
                return GAVE_UP
            running |= [self._start(name)]

    def _start(self, name: str) -> tuple[int, str]:
        pid = _fork(self._servers[name])
        emit("tf_server_started", server=name, pid=pid)
        return pid, name


def _fork(serve: Serve) -> int:
    """Run a server in a fork, which ends with this process; return its process id."""
    parent = os.getpid()
    if pid := os.fork():
        return pid
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            server = serve()  # keep a reference: it stops when it is collected
            while True:
                signal.pause()
            del server
    except BaseException:  # noqa: BLE001 - the fork must not continue as its parent
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(1)


def _servers_of(role: dict[str, Any]) -> dict[str, Serve]:
    from tensorflow.data.experimental import service

    if "dispatcher" in role:
        part = role["dispatcher"]
        config = service.DispatcherConfig(
            port=part["port"],
            work_dir=part["journal"],
            fault_tolerant_mode=True,
            worker_addresses=part["workers"],
        )
        return {"the tf.data dispatcher": functools.partial(service.DispatchServer, config)}
    part = role["workers"]
    return {
        f"the tf.data worker {address}": functools.partial(
            service.WorkerServer,
            service.WorkerConfig(
                dispatcher_address=part["dispatcher"],
                worker_address=address,
                port=int(address.rpartition(":")[2]),
                heartbeat_interval_ms=_HEARTBEAT_MS,
                dispatcher_timeout_ms=_FIRST_CONTACT_MS,
            ),
        )
        for address in part["addresses"]
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
