"""The command mpirun runs instead of ssh: `python -m launcher.runtime.mpi.agent HOST COMMAND...`.

It asks the host to start the command, waits for it, and exits with its exit code. The command's
output goes to that host's log.
"""

from __future__ import annotations

import os
import sys

from launcher.errors import AuthenticationError, DataServiceUnavailable, WireError
from launcher.runtime import jsonl_socket
from launcher.runtime.host.processes import ignore_stop_signals, shell_code
from launcher.shared import TOKEN_VARIABLE

#: Variables: the port of every train host's daemons, and the seconds to wait for a host to start.
PORT_VARIABLE = "LAUNCHER_MPI_PORT"
TIMEOUT_VARIABLE = "LAUNCHER_MPI_TIMEOUT"
#: The exit code of ssh for a lost connection.
LOST = 255


def main() -> int:
    """Run the agent and return its exit code."""
    host, *words = sys.argv[1:]
    ignore_stop_signals()  # the daemons end when their ranks have ended
    try:
        return _run(host, " ".join(words))
    except (AuthenticationError, DataServiceUnavailable, WireError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return LOST


def _run(host: str, command: str) -> int:
    connection = jsonl_socket.LineConnection(
        jsonl_socket.connect(
            (host, int(os.environ[PORT_VARIABLE])),
            os.environ[TOKEN_VARIABLE],
            timeout=float(os.environ[TIMEOUT_VARIABLE]),
            peer=f"the train host {host}",
        )
    )
    connection.send({"start": command})
    answer = connection.receive()
    code = LOST if answer is None else int(answer["exit"])
    return shell_code(code)


if __name__ == "__main__":
    sys.exit(main())
