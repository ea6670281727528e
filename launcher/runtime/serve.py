"""The role of a data group: worker processes that prepare batches until the job is over."""

from __future__ import annotations

import subprocess
import time

from launcher.runtime import processes
from launcher.runtime.events import emit
from launcher.runtime.host import STOP_GRACE, Host, JobOver

#: Workers that die this often, each, within CRASH_WINDOW seconds will not get better.
CRASH_LIMIT = 5
CRASH_WINDOW = 30.0


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
                    deaths.append(_died(host, index, worker, deaths, CRASH_LIMIT * count))
                    workers[index] = _start(host, index)
            host.pause()
    except JobOver:
        host.end_children(grace=2.0)


def _start(host: Host, index: int) -> subprocess.Popen[bytes]:
    # One process per CPU: libraries that start a thread per CPU each would only get in the way.
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return host.start("launcher.data.worker", [str(index)], threads)


def _died(
    host: Host, index: int, worker: subprocess.Popen[bytes], deaths: list[float], limit: int
) -> float:
    """Note a death; HostFailed when there have been too many lately."""
    now = time.monotonic()
    how = processes.describe_exit(worker.returncode)
    emit("worker_died", worker=index, pid=worker.pid, how=how)
    recent = 1 + sum(now - moment < CRASH_WINDOW for moment in deaths)
    if recent >= limit:
        raise host.failure(
            f"data workers died {recent} times within {CRASH_WINDOW:.0f} s, last: {how}"
        )
    return now
