"""Worker processes that prepare batches, on data hosts and optionally on train hosts."""

from __future__ import annotations

import subprocess
import time

from launcher.runtime import processes
from launcher.runtime.event_log import emit
from launcher.runtime.job_host import STOP_GRACE, JobEnded, JobHost
from launcher.runtime.services import DEATH_WINDOW, with_this_death

#: Deaths per worker within DEATH_WINDOW seconds after which restarting them would not help.
CRASH_LIMIT = 5
_MODULE = "launcher.data.worker"
_VARIABLES = {
    # There is one process per CPU, so libraries must not start one thread per CPU each.
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    # glibc reuses the memory of large batches instead of requesting it from the kernel each time:
    # page faults were measured to cost as much as collating (mallopt(3)). It keeps 256 MiB at most.
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}


def play(host: JobHost) -> None:
    """Keep the workers of this data host running; return when training has ended, well or badly.

    A worker that dies is replaced; its leased batches go to others meanwhile. A worker that exits
    with 0 was asked to (SIGTERM) and is not replaced. Raises HostFailed when workers die as fast as
    they start, and StopRequested when training continues for STOP_GRACE seconds after a stop
    request.
    """
    environment = host.environment
    assert environment.document.data is not None  # checked by the spec's rules and by main
    count = environment.document.data.workers_per_host or environment.cpus
    workers = {index: _start(host, index) for index in range(count)}
    deaths: list[float] = []
    try:
        while True:
            host.check(patience=STOP_GRACE)  # trainers may read on and save until then
            for index, worker in list(workers.items()):
                if worker.poll() == 0:  # it was asked to leave
                    emit("worker_drained", worker=index, pid=worker.pid)
                    del workers[index]
                elif worker.poll() is not None:
                    deaths = with_this_death(deaths, time.monotonic())
                    _tell_death(host, index, worker, len(deaths), CRASH_LIMIT * count)
                    workers[index] = _start(host, index)
            host.pause()
    except JobEnded:
        host.end_children(grace=2.0)


def start_local_workers(host: JobHost) -> None:
    """Start a train host's workers, which live as long as the trainer and are replaced if they die.

    Like all services they ignore SIGTERM, since the ranks, which receive it, may read on and save.
    """
    for index in range(host.environment.local_workers):
        host.start_service(
            _local_name(index), _MODULE, [str(index)], _VARIABLES, restarts=CRASH_LIMIT - 1
        )


def stop_local_workers(host: JobHost) -> None:
    """Stop the local workers, after the ranks of this host have ended."""
    for index in range(host.environment.local_workers):
        host.close_service(_local_name(index))


def _local_name(index: int) -> str:
    return f"data worker {index}"


def _start(host: JobHost, index: int) -> subprocess.Popen[bytes]:
    return host.start(_MODULE, [str(index)], _VARIABLES)


def _tell_death(
    host: JobHost, index: int, worker: subprocess.Popen[bytes], deaths: int, limit: int
) -> None:
    """Log a worker's death; raise HostFailed when the recent deaths reach the limit.

    deaths: the number of recent deaths, including this one.
    """
    how = processes.describe_exit(worker.returncode)
    emit("worker_died", worker=index, pid=worker.pid, how=how)
    if deaths >= limit:
        raise host.failure(
            f"data workers died {deaths} times within {DEATH_WINDOW:.0f} s, last: {how}"
        )
