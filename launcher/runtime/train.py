"""The role of the train group: run the user's script (torchrun, MPI or plain Python) or a task."""

from __future__ import annotations

import dataclasses
import importlib.util
import secrets
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from launcher.runtime import processes
from launcher.runtime.cluster import in_numeric_order
from launcher.runtime.environment import RECEIVER_VARIABLE
from launcher.runtime.hang import HangWatch
from launcher.runtime.hyperparameters import as_arguments
from launcher.runtime.job_host import HostFailed, JobEnded, JobHost
from launcher.runtime.mpi import part as mpi
from launcher.runtime.rank import HANG_VARIABLE
from launcher.runtime.reports import REPORTS_VARIABLE, read_reports
from launcher.runtime.serve import start_local_workers, stop_local_workers
from launcher.shared import CODE_CHANNEL, PARALLEL_VARIABLE, TASK_VARIABLE, Launch

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
    _need(host, "numpy", "the data service")
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
    environment = host.environment
    trainer = environment.document.trainer
    program = _program(host)
    variables = {REPORTS_VARIABLE: str(reports), HANG_VARIABLE: str(trainer.hang_timeout)}
    if trainer.launch is Launch.MPI:
        mpi.run(host, reports, lambda code: _failure(host, code, reports))
        return
    if trainer.launch is Launch.TORCHRUN:
        _need(host, "torch", "torchrun")
        child = host.start(
            "launcher.runtime.torchrun",
            [*_torchrun_options(host, reports), *program],
            variables | _parallel(host),
        )
    else:
        child = host.start(program[0], program[1:], variables | _plain_ranks(host))
    code = host.wait(child, HangWatch(host, reports).look)
    if code != 0:
        host.check_services()  # a service that ended is the cause of the ranks' errors
        raise _failure(host, code, reports)


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


def _parallel(host: JobHost) -> dict[str, str]:
    """Return the job's settings for each rank: how ranks share the model, and the task."""
    environment = host.environment
    trainer = environment.document.trainer
    part = trainer.parallel
    if part.partition_file:
        path = environment.paths.channels / CODE_CHANNEL / part.partition_file
        part = dataclasses.replace(part, partition_file=str(path))
    task = {} if trainer.task is None else {TASK_VARIABLE: trainer.task}
    return {PARALLEL_VARIABLE: part.to_json(), **task}


def _need(host: JobHost, package: str, what: str) -> None:
    """Raise HostFailed here rather than let a child fail with a bare exit code."""
    if importlib.util.find_spec(package) is None:
        raise host.failure(
            f"{what} needs {package}, which {sys.executable} does not have: use an image (on this "
            "machine, an environment) that has it"
        )


def _torchrun_options(host: JobHost, reports: Path) -> list[str]:
    """Return options for static rendezvous over the train group; the leader holds the store."""
    environment, cluster = host.environment, host.environment.cluster
    return [
        f"--nnodes={len(cluster.train_group.hosts)}",
        f"--node-rank={cluster.host_rank}",
        f"--nproc-per-node={environment.document.trainer.processes_per_host}",
        "--rdzv-backend=static",
        f"--master-addr={cluster.address(cluster.leader)}",
        f"--master-port={environment.ports.rendezvous}",
        f"--rdzv-id={environment.job_name}",
        f"--rdzv-conf=timeout={int(environment.document.start_timeout)}",
        f"--log-dir={reports}",
        "--module",
    ]


def _plain_ranks(host: JobHost) -> dict[str, str]:
    """Return the variables that torchrun would set, for one plain Python process per host."""
    environment, cluster = host.environment, host.environment.cluster
    return {
        "RANK": str(cluster.host_rank),
        "WORLD_SIZE": str(len(cluster.train_group.hosts)),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": cluster.address(cluster.leader),
        "MASTER_PORT": str(environment.ports.rendezvous),
    }


def _failure(host: JobHost, code: int, reports: Path) -> HostFailed:
    """Return the first cause among this host's ranks: a signal, then an own error, then an echo."""
    failures = [
        host.failure(
            report["cause"],
            rank=report["rank"],
            detail=report["detail"],
            is_peer_loss=report["is_peer_loss"],
        )
        for report in sorted(read_reports(reports, "rank-*"), key=lambda report: report["time"])
    ]
    spoken = {error.failure.rank for error in failures}
    silent = [
        (status, host.failure(processes.describe_exit(status), rank=rank))
        for rank, status in sorted(_exits(host, code, reports).items())
        if rank not in spoken and status != 0
    ]
    # torchrun ends the other ranks with SIGTERM, so that counts only if there is no other cause.
    causes = [error for status, error in silent if status != -signal.SIGTERM] + failures
    causes = sorted(causes, key=lambda error: error.failure.is_echo)
    causes += [error for _, error in silent]
    return (causes or [host.failure(f"the trainer ended: {processes.describe_exit(code)}")])[0]


def _exits(host: JobHost, code: int, reports: Path) -> dict[int, int]:
    """Return the exit status of this host's ranks, by rank."""
    if host.environment.document.trainer.launch is Launch.PYTHON:
        return {host.environment.cluster.host_rank: code}
    pattern = "exit-*" if host.environment.document.trainer.launch is Launch.MPI else "torchrun"
    return {
        int(rank): status
        for exits in read_reports(reports, pattern)
        for rank, status in exits.items()
    }


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
