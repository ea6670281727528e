"""A train host's part in MPI: start mpirun or its daemon and watch this host's ranks."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from launcher.runtime import processes
from launcher.runtime.job_host import HostFailed, JobHost
from launcher.runtime.mpi.agent import PATIENCE_VARIABLE, PORT_VARIABLE
from launcher.runtime.mpi.daemons import Daemons
from launcher.runtime.mpi.mpi_rank import OUTPUT
from launcher.runtime.mpi.mpirun import mpirun_command
from launcher.runtime.output import NamedOutput, Output
from launcher.runtime.reports import REPORTS_VARIABLE

_RANK = "launcher.runtime.mpi.mpi_rank"
_AGENT = "launcher.runtime.mpi.agent"


def run(host: JobHost, reports: Path, failure: Callable[[int], HostFailed]) -> None:
    """Run this host's ranks to their end.

    failure: creates the exception for the ranks' failures, given an exit status. Raises HostFailed,
        StopRequested or JobOver.
    """
    _need_open_mpi(host)
    ranks = NamedOutput(reports / OUTPUT)
    ranks.follow()

    def look() -> None:
        if any(reports.glob("exit-*.json")):
            raise failure(1)

    part = _lead if host.environment.cluster.is_leader else _follow
    try:
        part(host, _variables(host, reports), look)
    finally:
        ranks.drain()
    look()


def _lead(host: JobHost, variables: dict[str, str], look: Callable[[], None]) -> None:
    """Run mpirun, which starts this host's ranks directly or, with several hosts, by a daemon."""
    if len(host.environment.cluster.train_group.hosts) > 1:
        Daemons(host.environment, variables, host.spare).serve()
    output = Output()
    child = processes.start(
        _command(host),
        environment=variables,
        folder=host.environment.paths.library,
        output=output.write_end,
    )
    output.follow()
    host.spare(child)  # at SIGTERM it would end all ranks at once, and they may be saving work
    code = host.wait(child, look)
    if code != 0:
        output.drain()
        look()
        # The host of the failed rank reports more detail.
        cause = f"mpirun ended: {processes.describe_exit(code)}"
        raise host.failure(cause, detail=output.last_lines())


def _follow(host: JobHost, variables: dict[str, str], look: Callable[[], None]) -> None:
    """Start the daemon when the leader asks for it, and wait for its end."""
    daemons = Daemons(host.environment, variables, host.spare)
    daemons.serve()
    host.wait_until(lambda: daemons.exit is not None, look)
    if daemons.exit:
        look()
        how = processes.describe_exit(daemons.exit)
        raise host.failure(f"MPI's daemon (orted) ended: {how}")


def _command(host: JobHost) -> list[str]:
    environment, cluster = host.environment, host.environment.cluster
    hosts = cluster.train_group.hosts
    present = [name for _, name in socket.if_nameindex()]
    return mpirun_command(
        addresses=[cluster.address(name) for name in hosts] if len(hosts) > 1 else ["localhost"],
        processes_per_host=environment.document.trainer.processes_per_host,
        interface=cluster.interface if cluster.interface in present else None,
        agent=f"{sys.executable} -m {_AGENT}",
        custom=environment.document.trainer.mpi_options,
        program=[sys.executable, "-m", _RANK],
    )


def _variables(host: JobHost, reports: Path) -> dict[str, str]:
    """Return the environment for mpirun, the daemons and the ranks; mpirun sends none."""
    environment, cluster = host.environment, host.environment.cluster
    return {
        **host.variables,
        REPORTS_VARIABLE: str(reports),
        "MASTER_ADDR": cluster.address(cluster.leader),
        "MASTER_PORT": str(environment.ports.rendezvous),
        PORT_VARIABLE: str(environment.ports.start),
        PATIENCE_VARIABLE: str(environment.document.start_timeout),
    }


def _need_open_mpi(host: JobHost) -> None:
    """Raise HostFailed here rather than let hosts wait for each other in vain."""
    if " " in sys.executable:  # mpirun splits its agent's command at blanks, without quoting
        raise host.failure(f"MPI needs a Python whose path has no blanks: {sys.executable!r}")
    mend = "use an image that has it (AWS's training images do; apt-get: openmpi-bin)"
    if shutil.which("mpirun", path=host.variables.get("PATH")) is None:
        raise host.failure(f"MPI needs Open MPI 4, and mpirun is not on PATH: {mend}")
    command = ["mpirun", "--version"]
    asked = subprocess.run(command, capture_output=True, text=True, env=host.variables, check=False)
    if "(Open MPI) 4." not in asked.stdout:
        said = asked.stdout.strip()[:80]
        raise host.failure(f"MPI needs Open MPI 4, and mpirun says {said!r}: {mend}")
