"""A train host's port on which the leader's mpirun asks for its daemon.

    agent -> host     {"start": COMMAND}   a command line for sh, as mpirun would give it to ssh
    host -> agent     {"exit": CODE}       when it has ended

Only peers that know the job's token are served.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence

from launcher.errors import AuthenticationError, WireError
from launcher.runtime import handshake, jsonl_socket
from launcher.runtime.host.environment import Environment
from launcher.runtime.host.event_log import emit


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
