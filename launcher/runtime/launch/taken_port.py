"""Hints for programs that cannot have a port because another host of the job has it."""

from __future__ import annotations

from launcher.runtime.host.cluster import Cluster
from launcher.runtime.host.event_log import emit

_TAKEN = "address already in use"
_WHY = "the hosts of this job share one network"
_FIX = "run it with isolation network, or bind LAUNCHER_HOST_ADDRESS"


def hint_of_taken_port(cluster: Cluster, printed: str) -> str:
    """Return what to do about a taken port, where hosts share a network; else an empty text."""
    shares_network = len(cluster.addresses) > 1
    return f" ({_WHY}: {_FIX})" if shares_network and _TAKEN in printed.lower() else ""


class TakenPortNotice:
    """Logs the hint once, as a program may wait for ever instead of failing."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._is_given = False

    def __call__(self, printed: str) -> None:
        """Look at the last lines of a program."""
        if not self._is_given and hint_of_taken_port(self._cluster, printed):
            self._is_given = True
            emit("port_taken", why=_WHY, fix=_FIX)
