"""The mpirun command over a host's group, and the variables that its agents read."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence

from launcher.runtime.environment import Environment
from launcher.runtime.mpi.agent import PORT_VARIABLE, TIMEOUT_VARIABLE
from launcher.runtime.mpi.mpirun import mpirun_command

_AGENT = "launcher.runtime.mpi.agent"


def group_command(environment: Environment, *, rank: str, custom: Sequence[str]) -> list[str]:
    """Return the mpirun command over the hosts of this host's train group.

    rank: the module that each rank runs. custom: the user's options.
    """
    cluster = environment.cluster
    hosts = cluster.train_group.hosts
    present = [name for _, name in socket.if_nameindex()]
    return mpirun_command(
        addresses=[cluster.address(name) for name in hosts] if len(hosts) > 1 else ["localhost"],
        processes_per_host=environment.document.trainer.processes_per_host,
        interface=cluster.interface if cluster.interface in present else None,
        agent=f"{sys.executable} -m {_AGENT}",
        custom=custom,
        program=[sys.executable, "-m", rank],
        variables=os.environ,
    )


def agent_variables(environment: Environment) -> dict[str, str]:
    """Return what the agent needs to ask other hosts for their daemons; mpirun sends none."""
    return {
        PORT_VARIABLE: str(environment.ports.start),
        TIMEOUT_VARIABLE: str(environment.document.start_timeout),
    }
