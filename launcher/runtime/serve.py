"""The role of a data group: the worker processes of its data engine."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping

from launcher.runtime import processes
from launcher.runtime.data_services import data_services
from launcher.runtime.event_log import emit
from launcher.runtime.job_host import STOP_GRACE, JobEnded, JobHost
from launcher.runtime.services import DEATH_WINDOW, with_this_death

#: Deaths per worker within DEATH_WINDOW seconds after which restarting them would not help.
CRASH_LIMIT = 5


def play(host: JobHost) -> None:
    """Play the data engine's part on this data host; return when training has ended."""
    data = host.environment.document.data
    assert data is not None  # checked by main
    data_services(data.engine).serve(host)


def keep_workers(host: JobHost, module: str, count: int, variables: Mapping[str, str]) -> None:
    """Keep the workers of this data host running; return when training has ended, well or badly.

    module: of a worker; its argument is its index. A worker that dies is replaced; its leased
    batches go to others meanwhile. A worker that exits with 0 was asked to (SIGTERM) and is not
    replaced. Raises HostFailed when workers die as fast as they start, and StopRequested when
    training continues for STOP_GRACE seconds after a stop request.
    """

    def start(index: int) -> subprocess.Popen[bytes]:
        return host.start(module, [str(index)], variables)

    workers = {index: start(index) for index in range(count)}
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
                    workers[index] = start(index)
            host.pause()
    except JobEnded:
        host.end_children(grace=2.0)


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
