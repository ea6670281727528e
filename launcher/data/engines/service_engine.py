"""Launcher's own data service as an engine: a dispatcher, receivers and workers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from launcher.errors import DataServiceUnavailable
from launcher.runtime import CRASH_LIMIT, RECEIVER_VARIABLE, JobHost, supervise_workers
from launcher.shared import token_hex

if TYPE_CHECKING:
    from launcher.data.memory import Pinning
    from launcher.data.service import ServiceSource

_WORKER = "launcher.data.worker"
_WORKER_VARIABLES = {
    # There is one process per CPU, so libraries must not start one thread per CPU each.
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    # glibc reuses the memory of large batches instead of requesting it from the kernel each time:
    # page faults were measured to cost as much as collating (mallopt(3)). It keeps 256 MiB at most.
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(256 << 20),
}
#: Restarts of the dispatcher that are allowed within half a minute.
_DISPATCHER_RESTARTS = 5
#: asyncio allocates 256 KiB per receive, which glibc would request from the kernel (mallopt(3)).
_DISPATCHER_VARIABLES = dict.fromkeys(
    ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(4 << 20)
)


class ServiceEngine:
    """The data service: workers on data hosts and, with `local_workers`, on train hosts."""

    packages = ("numpy",)

    def start(self, host: JobHost) -> None:
        """Start the receiver, the local workers and, on the leader, the dispatcher."""
        if host.environment.cluster.is_leader:
            host.start_service(
                "dispatcher",
                "launcher.data.dispatcher",
                variables=_DISPATCHER_VARIABLES,
                restarts=_DISPATCHER_RESTARTS,
            )
        host.variables[RECEIVER_VARIABLE] = f"launcher-{token_hex(8)}"
        host.start_service("receiver", "launcher.data.receiver")
        for index in range(host.environment.local_workers):
            # Like all services they ignore SIGTERM, since the ranks, which receive it, may read on.
            host.start_service(
                _local_name(index),
                _WORKER,
                [str(index)],
                _WORKER_VARIABLES,
                restarts=CRASH_LIMIT - 1,
            )

    def serve(self, host: JobHost) -> None:
        """Keep this data host's workers running until training has ended."""
        environment = host.environment
        assert environment.document.data is not None  # checked by the spec's rules and by main
        count = environment.document.data.workers_per_host or environment.cpus
        supervise_workers(host, _WORKER, count, _WORKER_VARIABLES)

    def stop_reading(self, host: JobHost) -> None:
        """Stop the local workers, then the receiver, which forwards the ranks' final messages."""
        for index in range(host.environment.local_workers):
            host.close_service(_local_name(index))
        host.close_service("receiver")

    def stop(self, host: JobHost) -> None:
        """Stop the dispatcher, which dismisses the workers."""
        host.close_service("dispatcher")

    def open_source(self, pinning: Pinning | None) -> ServiceSource:
        """Connect this rank to the receiver of its host."""
        from launcher.data.service import ServiceSource

        if name := os.environ.get(RECEIVER_VARIABLE):
            return ServiceSource(name, pinning)
        raise DataServiceUnavailable(
            f"this job declares a data group, but {RECEIVER_VARIABLE} is not set in this process: "
            "start it with the environment of the training script"
        )


def _local_name(index: int) -> str:
    return f"data worker {index}"
