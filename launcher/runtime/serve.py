"""Worker processes that prepare batches: on data hosts, and beside the ranks where asked."""

from __future__ import annotations

import subprocess
import time

from launcher.runtime import processes
from launcher.runtime.events import emit
from launcher.runtime.host import STOP_GRACE, Host, JobOver, Service

#: Workers that die this often, each, within CRASH_WINDOW seconds will not get better.
CRASH_LIMIT = 5
CRASH_WINDOW = 30.0
#: One process per CPU: libraries that start a thread per CPU each would only get in the way.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
#: glibc uses the memory of large batches again instead of asking the kernel for it each time: page
#: faults were measured to cost as much as collating (mallopt(3)). At most 256 MiB stay so.
_REUSED_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}


def play(host: Host) -> None:
    """Keep the workers of this data host running; returns when training has ended, well or badly.

    A worker that dies is replaced: its batches were leased, and go to others meanwhile. Raises
    HostFailed when workers die as fast as they start, and StopRequested when training goes on for
    STOP_GRACE seconds after the request to stop.
    """
    environment = host.environment
    assert environment.document.data is not None  # checked by the rules, and by roles()
    count = environment.document.data.workers_per_host or environment.cpus
    deaths = _Deaths(count)
    workers = {index: _start(host, index) for index in range(count)}
    try:
        while True:
            host.check(patience=STOP_GRACE)  # until then trainers may read on, and save
            for index, worker in workers.items():
                if worker.poll() is not None:
                    deaths.note(host, index, worker)
                    workers[index] = _start(host, index)
            host.pause()
    except JobOver:
        host.end_children(grace=2.0)


def start_local_workers(host: Host) -> None:
    """On a train host: workers that live as long as the trainer, and are replaced when they die."""
    count = host.environment.local_workers
    deaths = _Deaths(count)
    for index in range(count):
        host.add_service(f"worker {index}", _LocalWorker(host, index, deaths))


class _LocalWorker(Service):
    """Deaf to SIGTERM as all services are: the ranks, which are not, may read on and save."""

    def __init__(self, host: Host, index: int, deaths: _Deaths) -> None:
        self._index = index
        self._deaths = deaths
        super().__init__(f"worker {index}", _start_deaf(host, index))

    def check(self, host: Host) -> None:
        if self._child.poll() is not None:
            self._deaths.note(host, self._index, self._child)
            self._child = _start_deaf(host, self._index)


class _Deaths:
    """When the workers of a host died, `count` of which should live."""

    def __init__(self, count: int) -> None:
        self._limit = CRASH_LIMIT * count
        self._moments: list[float] = []

    def note(self, host: Host, index: int, worker: subprocess.Popen[bytes]) -> None:
        """Note a death; raises HostFailed when there have been too many lately."""
        now = time.monotonic()
        how = processes.describe_exit(worker.returncode)
        emit("worker_died", worker=index, pid=worker.pid, how=how)
        self._moments = [m for m in self._moments if now - m < CRASH_WINDOW] + [now]
        if (recent := len(self._moments)) >= self._limit:
            raise host.failure(
                f"data workers died {recent} times within {CRASH_WINDOW:.0f} s, last: {how}"
            )


def _start(host: Host, index: int) -> subprocess.Popen[bytes]:
    return host.start("launcher.data.worker", [str(index)], _ONE_THREAD | _REUSED_MEMORY)


def _start_deaf(host: Host, index: int) -> subprocess.Popen[bytes]:
    with processes.stop_signals_blocked():
        return _start(host, index)
