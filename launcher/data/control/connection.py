"""A worker's or a receiver's connection to the dispatcher, made again when it breaks."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterable

from launcher.data.control import messages as m
from launcher.errors import LauncherError, WireError
from launcher.runtime import lines
from launcher.runtime.environment import Environment
from launcher.runtime.events import emit

#: Seconds without a word from the dispatcher, which says one every second, after which the
#: connection is given up: it may be half open.
SILENCE = 10.0
#: Seconds for the dispatcher to come back: it is started again within one.
RETURN_WITHIN = 60.0
#: Seconds over which those who lost the dispatcher spread their return.
_SPREAD = 0.1
#: Of its own: the global generator is seeded for the sample that the main thread is at.
_coin = random.Random()


class Control:
    """Typed messages to and from the dispatcher. Hearing is for one thread.

    hello: the first words on each new connection. They say all that this side knows, so that
    nothing is lost with the messages that were on their way.

    Connecting waits as long as hosts may start apart; raises DataServiceUnavailable after that.
    """

    def __init__(self, environment: Environment, hello: Callable[[], Iterable[m.Message]]) -> None:
        self._environment = environment
        self._hello = hello
        self._saying = threading.Lock()
        self._closed = False
        self._lines = self._connect(environment.document.start_timeout)

    def _connect(self, patience: float) -> lines.LineConnection:
        cluster = self._environment.cluster
        connection = lines.connect(
            (cluster.address(cluster.leader), self._environment.ports.dispatcher),
            self._environment.token,
            patience=patience,
            what=f"the dispatcher on {cluster.leader}",
        )
        connection.settimeout(SILENCE)
        opened = lines.LineConnection(connection)
        with self._saying:  # what is said meanwhile comes after the hello
            self._lines = opened
            for message in self._hello():
                opened.send(message.encode())
        return opened

    def say(self, message: m.Message) -> None:
        """Send a message; without a connection it is lost, and the next hello makes up for it."""
        with self._saying, contextlib.suppress(OSError):
            self._lines.send(message.encode())

    def hear(self) -> m.Message | None:
        """The next message, or None when the dispatcher is gone for good, or this side closed."""
        while True:
            with contextlib.suppress(WireError, OSError):
                while (raw := self._lines.receive()) is not None:
                    message = m.decode(raw)
                    if not isinstance(message, m.Alive):
                        return message
            if not self._come_back():
                return None

    def _come_back(self) -> bool:
        if self._closed:
            return False
        emit("dispatcher_lost")
        self._lines.close()
        deadline = time.monotonic() + RETURN_WITHIN
        time.sleep(_coin.uniform(0, _SPREAD))
        while not self._closed and (left := deadline - time.monotonic()) > 0:
            try:
                self._connect(left)
            except OSError:  # noqa: PERF203 - each attempt may fail on its own
                time.sleep(_SPREAD)  # lost again within its hello
            except LauncherError as error:
                emit("dispatcher_not_back", why=str(error))
                return False
            else:
                return True
        return False

    def close(self) -> None:
        self._closed = True
        self._lines.close()
