"""The process that mpirun starts in script mode: it runs one rank of the script.

The command comes from this host's environment and not through mpirun's command line, since hosts
of one machine have different folders. mpirun gets whole lines, so that those of ranks do not mix.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from launcher.runtime.host.output import Output
from launcher.runtime.host.processes import shell_code
from launcher.runtime.mpi.mpi_rank import record_stops, share_memory_in
from launcher.shared import CPUS_VARIABLE

#: JSON: the folder and the command of each rank of this host, and a folder of its shared memory.
PROGRAM_VARIABLE = "LAUNCHER_MPI_PROGRAM"


def main() -> int:
    """Run the script and return its exit code; 0 after a stop request, as in `mpi_rank`."""
    program = json.loads(os.environ.pop(PROGRAM_VARIABLE))
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
