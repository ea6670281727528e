"""Worker processes that prepare batches: on data hosts, and beside the ranks where asked."""

from __future__ import annotations

import subprocess
import time

from launcher.runtime import processes
from launcher.runtime.events import emit
from launcher.runtime.host import STOP_GRACE, Host, JobOver
from launcher.runtime.services import DEATH_WINDOW, with_this_death

#: Workers that die this often, each, within DEATH_WINDOW seconds will not get better.
CRASH_LIMIT = 5
_MODULE = "launcher.data.worker"
_VARIABLES = {
    # One process per CPU: libraries that start a thread per CPU each would only get in the way.
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    # glibc uses the memory of large batches again instead of asking the kernel for it each time:
    # page faults were measured to cost as much as collating (mallopt(3)). 256 MiB stay at most.
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}


def play(host: Host) -> None:
    """Keep the workers of this data host running; returns when training has ended, well or badly.

    A worker that dies is replaced: its batches were leased, and go to others meanwhile. One that
    leaves with 0 was asked to (SIGTERM), and is not. Raises
    HostFailed when workers die as fast as they start, and StopRequested when training goes on for
    STOP_GRACE seconds after the request to stop.
    """
    environment = host.environment
    assert environment.document.data is not None  # checked by the rules, and by roles()
    count = environment.document.data.workers_per_host or environment.cpus
    workers = {index: _start(host, index) for index in range(count)}
    deaths: list[float] = []
    try:
        while True:
            host.check(patience=STOP_GRACE)  # until then trainers may read on, and save
            for index, worker in list(workers.items()):
                if worker.poll() == 0:  # it was asked to leave
                    emit("worker_drained", worker=index, pid=worker.pid)
                    del workers[index]
                elif worker.poll() is not None:
                    deaths = with_this_death(deaths, time.monotonic())
                    _tell_death(host, index, worker, len(deaths), CRASH_LIMIT * count)
                    workers[index] = _start(host, index)
            host.pause()
    except JobOver:
        host.end_children(grace=2.0)


def start_local_workers(host: Host) -> None:
    """On a train host: workers that live as long as the trainer, and are replaced when they die.

    Services as they are, they are deaf to SIGTERM: the ranks, which are not, may read on and save.
    """
    for index in range(host.environment.local_workers):
        host.start_service(
            _local_name(index), _MODULE, [str(index)], _VARIABLES, restarts=CRASH_LIMIT - 1
        )


def stop_local_workers(host: Host) -> None:
    """When the ranks of this host have ended."""
    for index in range(host.environment.local_workers):
        host.close_service(_local_name(index))


def _local_name(index: int) -> str:
    return f"data worker {index}"


def _start(host: Host, index: int) -> subprocess.Popen[bytes]:
    return host.start(_MODULE, [str(index)], _VARIABLES)


def _tell_death(
    host: Host, index: int, worker: subprocess.Popen[bytes], deaths: int, limit: int
) -> None:
    """deaths: of late, with this one. Raises HostFailed when they reach the limit."""
    how = processes.describe_exit(worker.returncode)
    emit("worker_died", worker=index, pid=worker.pid, how=how)
    if deaths >= limit:
        raise host.failure(
            f"data workers died {deaths} times within {DEATH_WINDOW:.0f} s, last: {how}"
        )
