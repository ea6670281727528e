"""A worker's or a receiver's connection to the dispatcher, which reconnects when it breaks."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterable

from launcher.data.control import messages as m
from launcher.errors import LauncherError, WireError
from launcher.runtime import Environment, emit, jsonl_socket
from launcher.shared import backoff

#: Seconds without a message after which the connection is given up, because it may be half open.
#: The dispatcher sends a heartbeat every second.
SILENCE = 10.0
#: Seconds to wait for the dispatcher to return; its host restarts it within one.
RECONNECT_TIMEOUT = 60.0
#: Seconds over which processes that lost the dispatcher spread their reconnection.
_SPREAD = 0.1
#: Separate from the global generator, which is seeded for the main thread's current sample.
_jitter = random.Random()


class Control:
    """Exchanges typed messages with the dispatcher. Only one thread may receive.

    registration: returns the first messages on each new connection. They carry the complete state
    of this side, so that messages lost in transit do not matter.

    Connecting waits as long as hosts may differ in their start times, then raises
    DataServiceUnavailable.
    """

    def __init__(
        self, environment: Environment, registration: Callable[[], Iterable[m.Message]]
    ) -> None:
        self._environment = environment
        self._registration = registration
        self._sending = threading.Lock()
        self._closed = False
        self._lines = self._connect(environment.document.start_timeout)

    def _connect(self, patience: float) -> jsonl_socket.LineConnection:
        cluster = self._environment.cluster
        connection = jsonl_socket.connect(
            (cluster.address(cluster.leader), self._environment.ports.dispatcher),
            self._environment.token,
            timeout=patience,
            peer=f"the dispatcher on {cluster.leader}",
        )
        connection.settimeout(SILENCE)
        opened = jsonl_socket.LineConnection(connection)
        with self._sending:  # other messages wait until the registration is sent
            self._lines = opened
            for message in self._registration():
                opened.send(message.encode())
        return opened

    def send(self, message: m.Message) -> None:
        """Send a message.

        Without a connection it is lost, and the next registration makes up for it.
        """
        with self._sending, contextlib.suppress(OSError):
            self._lines.send(message.encode())

    def receive(self) -> m.Message | None:
        """Return the next message.

        Returns None once the dispatcher is gone for good or this side is closed.
        """
        while True:
            with contextlib.suppress(WireError, OSError):
                while (raw := self._lines.receive()) is not None:
                    message = m.decode(raw)
                    if not isinstance(message, m.Alive):
                        return message
            if not self._reconnect():
                return None

    def _reconnect(self) -> bool:
        if self._closed:
            return False
        emit("dispatcher_lost")
        self._lines.close()
        time.sleep(_jitter.uniform(0, _SPREAD))
        for left in backoff(first=_SPREAD, longest=_SPREAD, timeout=RECONNECT_TIMEOUT):
            if self._closed:
                return False
            try:
                self._connect(left)
            except OSError:
                continue  # lost again while registering
            except LauncherError as error:
                emit("dispatcher_not_reconnected", why=str(error))
                return False
            else:
                return True
        return False

    def close(self) -> None:
        """Close the connection for good."""
        self._closed = True
        self._lines.close()
