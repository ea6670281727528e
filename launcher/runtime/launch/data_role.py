"""The role of a data group: the worker processes of its data engine."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping

from launcher.runtime.end.services import CRASH_WINDOW, recent_crashes
from launcher.runtime.host import processes
from launcher.runtime.host.event_log import emit
from launcher.runtime.host.job_host import STOP_GRACE, JobEnded, JobHost
from launcher.runtime.launch.engine_interface import data_services

#: Crashes per worker within CRASH_WINDOW seconds after which restarting them would not help.
CRASH_LIMIT = 5


def run_role(host: JobHost) -> None:
    """Run the data engine's part on this data host; return when training has ended."""
    data = host.environment.document.data
    assert data is not None  # checked by main
    data_services(data.engine).serve(host)


def supervise_workers(host: JobHost, module: str, count: int, variables: Mapping[str, str]) -> None:
    """Restart this data host's workers when they die; return when training has ended.

    module: the worker's module, which gets the worker's index as argument.

    While a worker is restarted, its leased batches go to others. A worker that exits with 0 was
    asked to (SIGTERM) and is not restarted. Raises HostFailed when workers die as fast as they
    start, and StopRequested when training continues for STOP_GRACE seconds after a stop request.
    """

    def start(index: int) -> subprocess.Popen[bytes]:
        return host.start(module, [str(index)], variables)

    workers = {index: start(index) for index in range(count)}
    crashes: list[float] = []

    def restart() -> None:
        nonlocal crashes
        for index, worker in list(workers.items()):
            if worker.poll() == 0:  # it was asked to stop
                emit("worker_drained", worker=index, pid=worker.pid)
                del workers[index]
            elif worker.poll() is not None:
                crashes = recent_crashes(crashes, time.monotonic())
                _report_crash(host, index, worker, len(crashes), CRASH_LIMIT * count)
                workers[index] = start(index)

    serve_until_end(host, restart)


def serve_until_end(
    host: JobHost, check: Callable[[], None], close: Callable[[], None] = lambda: None
) -> None:
    """Keep this data host until training has ended.

    check: called repeatedly meanwhile. close: called at the end, before children are killed.
    """
    try:
        while True:
            host.check(stop_delay=STOP_GRACE)  # until then trainers may continue to read and save
            check()
            host.pause()
    except JobEnded as ended:
        close()
        host.end_children(grace=2.0)
        failure = ended.outcome.failure
        if failure is not None and failure.witness == host.environment.cluster.host:
            raise  # the leader is frozen, and no other host might report it


def _report_crash(
    host: JobHost, index: int, worker: subprocess.Popen[bytes], crashes: int, limit: int
) -> None:
    """Log a worker's crash; raise HostFailed when the recent crashes reach the limit.

    crashes: the number of recent crashes, including this one.
    """
    how = processes.describe_exit(worker.returncode)
    emit("worker_died", worker=index, pid=worker.pid, how=how)
    if crashes >= limit:
        raise host.failure(
            f"data workers died {crashes} times within {CRASH_WINDOW:.0f} s, last: {how}"
        )
