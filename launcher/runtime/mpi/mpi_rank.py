"""The process that mpirun starts under the distribution `Mpi`: it forks one rank, reports its end.

The script and its arguments come from this host's environment and not through mpirun's command
line. The rank gets the variables that torchrun would set and prints to its own host's log.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from launcher.runtime.host.output import print_to
from launcher.runtime.host.processes import shell_code
from launcher.runtime.host.report_files import REPORTS_VARIABLE, write_report
from launcher.runtime.launch import rank
from launcher.shared import CPUS_VARIABLE

#: The pipe in the reports' folder that this host's ranks print to.
OUTPUT = "output"
#: Open MPI's variables of a rank, by torchrun's names.
_RANK_VARIABLES = {
    "RANK": "OMPI_COMM_WORLD_RANK",
    "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE",
    "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK",
    "LOCAL_WORLD_SIZE": "OMPI_COMM_WORLD_LOCAL_SIZE",
}
#: Sets the folder of the memory that the ranks of a host share.
_SHARED_MEMORY = "OMPI_MCA_btl_vader_backing_directory"
_STOPS = {signal.SIGTERM, signal.SIGINT}


def torchrun_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that torchrun would set, for scripts written for it."""
    return {name: environ[source] for name, source in _RANK_VARIABLES.items()}


def share_memory_in(folder: str) -> None:
    """Let only this host's ranks share memory: Open MPI cannot tell hosts of one machine apart."""
    os.environ[_SHARED_MEMORY] = folder


def record_stops() -> list[int]:
    """Outlive stop requests, which the rank gets as well; return the list of those received."""
    received: list[int] = []
    for number in _STOPS:
        signal.signal(number, lambda number, _frame: received.append(number))
    return received


def main() -> int:
    """Fork the rank, run it in the child, and report its end from the parent."""
    reports = Path(os.environ[REPORTS_VARIABLE])
    os.environ.update(torchrun_variables(os.environ))
    if CPUS_VARIABLE in os.environ:
        share_memory_in(str(reports))
    print_to(reports / OUTPUT)
    child = os.fork()
    return _wait_for_rank(child, reports) if child else _run()


def _run() -> int:
    script = Path(os.environ["SM_MODULE_DIR"], os.environ["SM_USER_ENTRY_POINT"])
    sys.argv = [sys.argv[0], str(script), *json.loads(os.environ["SM_USER_ARGS"])]
    code = rank.main()
    if code:
        # At a regular exit MPI waits for the other ranks, which wait for this one. After this exit
        # mpirun ends them (`python -m mpi4py` exists for the same reason).
        sys.stdout.flush()
        os._exit(code)
    return 0


def _wait_for_rank(child: int, reports: Path) -> int:
    """Wait for the rank, report how it ended, and return a shell's exit code for it.

    A rank that ends after a stop request has not failed. An error code would make mpirun end the
    other ranks at once, although they may be saving their work.
    """
    received = record_stops()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if received or code == 0:
        return 0
    write_report(reports, f"exit-{os.environ['RANK']}", {os.environ["RANK"]: code})
    return shell_code(code)


if __name__ == "__main__":
    sys.exit(main())
