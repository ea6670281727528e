"""The mpirun command over a host's group, and the variables that its agents read."""

from __future__ import annotations

import itertools
import os
import socket
import sys
from collections.abc import Collection, Sequence

from launcher.runtime.host.environment import Environment
from launcher.runtime.mpi.daemons import PORT_VARIABLE, TIMEOUT_VARIABLE

_AGENT = "launcher.runtime.mpi.daemons"


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


#: Before a parameter's name, in the name of a variable that sets it.
_VARIABLE_PREFIX = "OMPI_MCA_"


def mpirun_command(
    addresses: Sequence[str],
    processes_per_host: int,
    interface: str | None,
    agent: str,
    custom: Sequence[str],
    program: Sequence[str],
    variables: Collection[str] = (),
) -> list[str]:
    """Build the mpirun command, with ranks in the hosts' order; the user's options replace ours.

    interface: None to let mpirun find one. agent: the command that mpirun runs instead of ssh.
    variables: the names of those that mpirun gets. Networks that an option or a variable excludes
        take the place of the interface, since mpirun refuses to have both.
    """
    given = _names(custom)
    by_variables = {name.removeprefix(_VARIABLE_PREFIX) for name in variables}
    given |= {
        name.replace("exclude", "include")
        for name in given | by_variables
        if name.endswith("_tcp_if_exclude")
    }
    slots = ",".join(f"{address}:{processes_per_host}" for address in addresses)
    options = [
        ["--allow-run-as-root"],
        ["--host", slots],
        ["-np", str(len(addresses) * processes_per_host)],
        ["--map-by", "slot"],
        ["--bind-to", "none"],  # training ranks have several threads
        *(["--mca", name, value] for name, value in _parameters(interface, agent)),
    ]
    ours = [option for option in options if not given & _names(option)]
    return ["mpirun", *itertools.chain(*ours), *custom, *program]


def _parameters(interface: str | None, agent: str) -> list[tuple[str, str]]:
    networks = ("btl_tcp_if_include", "oob_tcp_if_include") if interface else ()
    return [
        ("plm_rsh_agent", agent),
        ("plm_rsh_no_tree_spawn", "1"),  # only the leader starts daemons
        ("orte_leave_session_attached", "1"),  # a daemon is a child of its host and ends with it
        ("pml", "ob1"),
        ("btl", "^openib"),
        ("btl_vader_single_copy_mechanism", "none"),  # it needs ptrace, which containers lack
        *((name, str(interface)) for name in networks),
    ]


def _names(options: Sequence[str]) -> set[str]:
    """Return the names of the given options and parameters; mpirun refuses duplicates."""
    words = [word.lstrip("-") for word in options if word.startswith("-")]
    parameters = [
        name
        for word, name in itertools.pairwise(options)
        if word.lstrip("-") in ("mca", "gmca") and word.startswith("-")
    ]
    return {*words, *parameters} - {"mca", "gmca"}
