"""The role of the train group: run the user's script or a task, by the starter of the job."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import time
from pathlib import Path

from launcher.runtime.cluster import in_numeric_order
from launcher.runtime.environment import RECEIVER_VARIABLE
from launcher.runtime.hyperparameters import as_arguments
from launcher.runtime.job_host import JobEnded, JobHost
from launcher.runtime.serve import start_local_workers, stop_local_workers
from launcher.runtime.starters.registry import starter_for

#: Extra seconds in which a command host can report why it is not ready, which is more specific.
_PRECEDENCE = 5.0
#: Restarts of the dispatcher that are allowed within half a minute.
_DISPATCHER_RESTARTS = 5
#: asyncio allocates 256 KiB per receive, which glibc would request from the kernel (mallopt(3)).
_DISPATCHER_VARIABLES = dict.fromkeys(
    ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"), str(4 << 20)
)


def play(host: JobHost) -> None:
    """Run the train host's part to its end; raise HostFailed, JobOver or StopRequested."""
    _start_data_services(host)
    _wait_for_commands(host)
    reports = Path(tempfile.mkdtemp(prefix="launcher-reports-"))
    try:
        _train(host, reports)
    finally:
        shutil.rmtree(reports, ignore_errors=True)
    stop_local_workers(host)
    host.close_service("receiver")  # it forwards the ranks' final messages
    host.board.done()
    _wait_for_others(host)
    host.close_service("dispatcher")


def _start_data_services(host: JobHost) -> None:
    if not host.environment.has_data_service:
        return
    host.need("numpy", "the data service")
    if host.environment.cluster.is_leader:
        host.start_service(
            "dispatcher",
            "launcher.data.dispatcher",
            variables=_DISPATCHER_VARIABLES,
            restarts=_DISPATCHER_RESTARTS,
        )
    host.variables[RECEIVER_VARIABLE] = f"launcher-{secrets.token_hex(8)}"
    host.start_service("receiver", "launcher.data.receiver")
    start_local_workers(host)


def _wait_for_commands(host: JobHost) -> None:
    """Wait until the programs of all command hosts are ready, as scripts may use them at once."""
    awaited = frozenset(host.environment.cluster.command_hosts)
    patience = host.environment.document.start_timeout + _PRECEDENCE
    deadline = time.monotonic() + patience
    while missing := awaited - host.board.ready_hosts:
        host.check()
        if time.monotonic() > deadline:
            names = ", ".join(in_numeric_order(missing))
            raise host.failure(f"the command hosts {names} were not ready within {patience:.0f} s")
        host.pause()


def _train(host: JobHost, reports: Path) -> None:
    trainer = host.environment.document.trainer
    starter_for(trainer.launch)(host, reports).run(_program(host))


def _program(host: JobHost) -> list[str]:
    """Return the module that each rank runs and its arguments: the user's script or our trainer."""
    environment = host.environment
    trainer = environment.document.trainer
    if trainer.task is not None:
        return ["launcher.trainers"]
    script = environment.paths.code / trainer.entry_point
    if not script.is_file():
        raise host.failure(f"the entry point {trainer.entry_point} is not in the bundle")
    return ["launcher.runtime.rank", str(script), *as_arguments(environment.hyperparameters)]


def _wait_for_others(host: JobHost) -> None:
    """Wait until every train host is done, which the job coordination reports."""
    try:
        while True:
            host.check()
            host.check_services()
            host.pause()
    except JobEnded as over:
        if over.end.failure is not None:
            raise
