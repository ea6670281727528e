"""A connection to the dispatcher, from a worker or a receiver."""

from __future__ import annotations

from launcher.data import messages as m
from launcher.errors import WireError
from launcher.runtime import lines
from launcher.runtime.environment import Environment


class Control:
    """Typed messages to and from the dispatcher. Hearing is for one thread.

    Connecting waits as long as hosts may start apart; raises DataServiceUnavailable after that.
    """

    def __init__(self, environment: Environment) -> None:
        cluster = environment.cluster
        self._lines = lines.LineConnection(
            lines.connect(
                (cluster.address(cluster.leader), environment.ports.dispatcher),
                environment.token,
                patience=environment.document.start_timeout,
                what=f"the dispatcher on {cluster.leader}",
            )
        )

    def say(self, message: m.Message) -> None:
        """Send a message; raises OSError when the dispatcher is gone."""
        self._lines.send(message.encode())

    def hear(self) -> m.Message | None:
        """The next message, or None when the dispatcher is gone or talks nonsense."""
        try:
            raw = self._lines.receive()
            return None if raw is None else m.decode(raw)
        except (WireError, OSError):
            return None

    def close(self) -> None:
        self._lines.close()
