"""A train host's port on which the leader's mpirun asks for its daemon, and the agent that asks.

    agent -> host     {"start": COMMAND}   a command line for sh, as mpirun would give it to ssh
    host -> agent     {"exit": CODE}       when it has ended

mpirun runs the agent instead of ssh: `python -m launcher.runtime.mpi.daemons HOST COMMAND...`. It
exits with the daemon's exit code. Only peers that know the job's token are served. What the daemon
prints goes to its own host's log.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

from launcher.errors import AuthenticationError, DataServiceUnavailable, WireError
from launcher.runtime import handshake, jsonl_socket
from launcher.runtime.host.environment import Environment
from launcher.runtime.host.event_log import emit
from launcher.runtime.host.processes import ignore_stop_signals, shell_code
from launcher.shared import TOKEN_VARIABLE

#: Variables: the port of every train host's daemons, and the seconds to wait for a host to start.
PORT_VARIABLE = "LAUNCHER_MPI_PORT"
TIMEOUT_VARIABLE = "LAUNCHER_MPI_TIMEOUT"
#: The exit code of ssh for a lost connection.
_LOST = 255


class Daemons:
    """The daemons started on this host for the leader's mpirun; normally a single one.

    start: starts a daemon by its command.
    exempt: called with the daemon, to exempt it from the host's SIGTERM.
    """

    def __init__(
        self,
        environment: Environment,
        start: Callable[[Sequence[str]], subprocess.Popen[bytes]],
        exempt: Callable[[subprocess.Popen[bytes]], None],
    ) -> None:
        self._environment = environment
        self._start = start
        self._exempt = exempt
        self._exit: int | None = None
        address = (environment.cluster.bind_address, environment.ports.start)
        self._listener = socket.create_server(address)

    @property
    def exit(self) -> int | None:
        """The daemon's exit status; None before it ended."""
        return self._exit

    def serve(self) -> None:
        """Serve the leader in threads of this process."""
        threading.Thread(target=self._accept, name="daemons", daemon=True).start()

    def _accept(self) -> None:
        for connection, peer in jsonl_socket.accept_connections(self._listener, "start"):
            threading.Thread(target=self._serve, args=(connection, peer), daemon=True).start()

    def _serve(self, connection: socket.socket, peer: tuple[str, int]) -> None:
        try:
            handshake.accept(connection, self._environment.token)
            agent = jsonl_socket.LineConnection(connection)
            command = (agent.receive() or {})["start"]
        except (AuthenticationError, WireError, OSError, KeyError) as error:
            emit("connection_rejected", peer=peer[0], port="start", why=str(error))
            connection.close()
            return
        daemon = self._start(["/bin/sh", "-c", command])
        self._exempt(daemon)
        code = daemon.wait()
        with contextlib.suppress(OSError):  # mpirun has exited and needs no message
            agent.send({"exit": code})
        self._exit = code


def main() -> int:
    """Ask a host for its daemon, wait for it, and return its exit code."""
    host, *words = sys.argv[1:]
    ignore_stop_signals()  # the daemons end when their ranks have ended
    try:
        return _run(host, " ".join(words))
    except (AuthenticationError, DataServiceUnavailable, WireError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return _LOST


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
    code = _LOST if answer is None else int(answer["exit"])
    return shell_code(code)


if __name__ == "__main__":
    sys.exit(main())
