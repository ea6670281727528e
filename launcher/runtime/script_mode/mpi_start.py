"""MPI of script mode: the first host of a group runs mpirun over the group, as the toolkit does.

mpirun's output, and so that of every rank, goes to the first host's log. mpirun reaches the other
hosts as under Launcher's own distribution, without ssh. It starts this module for each rank, whose
command comes from its host's environment and not through mpirun's command line, since hosts of one
machine have different folders. mpirun gets whole lines, so that those of ranks do not mix.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from launcher.runtime.host.environment import Environment
from launcher.runtime.host.output import Output
from launcher.runtime.host.processes import shell_code
from launcher.runtime.mpi.daemons import Daemons
from launcher.runtime.mpi.mpi_rank import record_stops, share_memory_in
from launcher.runtime.mpi.mpirun_of_group import agent_variables, group_command
from launcher.shared import CPUS_VARIABLE, split_mpi_options

_MODULE = "launcher.runtime.script_mode.mpi_start"
#: JSON: the folder and the command of each rank of this host, and a folder of its shared memory.
_PROGRAM_VARIABLE = "LAUNCHER_MPI_PROGRAM"


def missing_program() -> str | None:
    """Return why MPI cannot start here, or None."""
    if shutil.which("mpirun"):
        return None
    return (
        "the job needs MPI, and mpirun is not on PATH: install Open MPI 4 (on Debian and Ubuntu: "
        "apt-get install openmpi-bin)"
    )


def script_command(program: str, arguments: Sequence[str]) -> list[str]:
    """Return the command of a rank; mpi4py, where it is installed, aborts all ranks at an error."""
    abort = ["-m", "mpi4py"] if find_spec("mpi4py") else []
    return [sys.executable, *abort, program, *arguments]


def variables(
    environment: Environment, command: Sequence[str], code: Path, shared_memory: str
) -> dict[str, str]:
    """Return what mpirun, its daemons and the ranks of this host need.

    code: the folder in which each rank runs its command. shared_memory: a folder for what the
        ranks of this host share.
    """
    program = {"folder": str(code), "command": list(command), "shared_memory": shared_memory}
    return {_PROGRAM_VARIABLE: json.dumps(program), **agent_variables(environment)}


def mpirun(environment: Environment, settings: Mapping[str, Any]) -> list[str]:
    """Return the mpirun command over the hosts of this host's group."""
    count = settings.get("sagemaker_mpi_num_processes")
    return group_command(
        environment,
        rank=_MODULE,
        custom=[
            "--tag-output",
            *(["-np", str(count)] if count else ()),
            *split_mpi_options(str(settings.get("sagemaker_mpi_custom_mpi_options") or "")),
        ],
    )


def serve_daemons(
    environment: Environment,
    variables: Mapping[str, str],
    exempt: list[int],
    outputs: list[Output],
) -> Daemons:
    """Start this host's daemon when mpirun asks for it; without an end while nobody asks.

    exempt: gets the daemon's process group, which ends when its ranks have. outputs: gets what the
        daemon itself prints.
    """

    def start(command: Sequence[str]) -> subprocess.Popen[bytes]:
        output = Output()
        daemon = output.start(command, environment=variables, folder=environment.paths.library)
        outputs.append(output)
        return daemon

    daemons = Daemons(environment, start, lambda daemon: exempt.append(daemon.pid))
    daemons.serve()
    return daemons


def main() -> int:
    """Run one rank and return its exit code; 0 after a stop request, as in `mpi_rank`."""
    program = json.loads(os.environ.pop(_PROGRAM_VARIABLE))
    if CPUS_VARIABLE in os.environ:
        share_memory_in(program["shared_memory"])
    received = record_stops()
    output = Output(f"rank {os.environ['OMPI_COMM_WORLD_RANK']}")
    # in this process group, which mpirun ends as a whole
    child = subprocess.Popen(
        program["command"],
        cwd=program["folder"],
        stdin=subprocess.DEVNULL,
        stdout=output.write_end,
        stderr=output.write_end,
    )
    output.follow()
    code = child.wait()
    output.drain()
    return 0 if received else shell_code(code)


if __name__ == "__main__":
    sys.exit(main())
