"""Detect a silent host by its heartbeats, even if its connection stays open. Time is passed in.

Each side of the job coordination sends heartbeats. The kernel of a host whose
processes are stopped (SIGSTOP) still acknowledges what it gets, so nothing else would tell.
"""

from __future__ import annotations

from launcher.shared import SILENT

#: Seconds between two heartbeats; of silence until a host is named, and until the job ends.
HEARTBEAT_INTERVAL = 2.0
NAMED_AFTER = 8.0
ENDED_AFTER = 120.0
#: A look that is this many seconds late means that this process itself did not run.
_LATE = 2.0


def cause_of(seconds: float) -> str:
    """Return the cause of the failure of a host that was silent for so long."""
    return f"{SILENT} for {seconds:.0f} s: its processes are frozen (SIGSTOP), or its machine is"


class HostSilence:
    """The times at which hosts were heard, without those in which this process did not run."""

    def __init__(self) -> None:
        self._heard: dict[str, float] = {}
        self._named: set[str] = set()
        self._looked: float | None = None

    def record(self, host: str, now: float) -> None:
        """Record that a host sent something."""
        self._heard[host] = now
        self._named.discard(host)

    def forget(self, host: str) -> None:
        """Forget a host whose connection has ended."""
        self._heard.pop(host, None)
        self._named.discard(host)

    def look(self, now: float) -> list[tuple[str, float]]:
        """Return the hosts that have just become silent, with their seconds; called often."""
        late = 0.0 if self._looked is None else now - self._looked
        self._looked = now
        if late > _LATE:
            self._heard = {host: heard + late for host, heard in self._heard.items()}
        silent = [(host, now - at) for host, at in self._heard.items() if now - at >= NAMED_AFTER]
        found = [(host, seconds) for host, seconds in silent if host not in self._named]
        self._named.update(host for host, _ in silent)
        return found

    def is_silent(self, host: str) -> bool:
        """Return True for a host that was named and has sent nothing since."""
        return host in self._named

    def seconds(self, host: str, now: float) -> float:
        """Return how long ago a host was heard; 0 for one that is not known."""
        return now - self._heard.get(host, now)

    def frozen(self, now: float) -> list[str]:
        """Return the hosts that have been silent for so long that the job ends."""
        return [host for host, heard in self._heard.items() if now - heard >= ENDED_AFTER]
