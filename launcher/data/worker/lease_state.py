"""A worker's leases and pace, as it reports them to the dispatcher. Thread-safe."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from launcher.data.control import messages as m

#: A change of pace by this factor is reported at once. Paces below _FASTEST seconds per batch count
#: as equal: such workers are leased the maximum anyway.
_CHANGE_FACTOR = 2.0
_FASTEST = 0.0015
#: Weight of the latest batch in the moving average of the pace.
_WEIGHT = 0.2


class LeaseState:
    """The steps that a worker was leased and has not finished, in order."""

    def __init__(self, worker: str, pid: int) -> None:
        self._worker, self._pid = worker, pid
        self._lock = threading.Lock()
        self._runs: dict[str, None] = {}
        self._held: dict[tuple[str, int], None] = {}
        self._started: set[tuple[str, int]] = set()
        self._done: list[tuple[str, int]] = []
        self._seconds: dict[str, float] = {}  # by kind of concurrent work
        self._reported_pace = 0.0

    def define(self, run: str) -> None:
        """Record that this worker has the definition of an epoch read."""
        with self._lock:
            self._runs[run] = None

    def forget(self, run: str) -> None:
        """Forget the definition of an epoch read."""
        with self._lock:
            self._runs.pop(run, None)

    def lease(self, run: str, steps: Iterable[int]) -> None:
        """Add leased steps."""
        with self._lock:
            self._held.update(dict.fromkeys((run, step) for step in steps))

    def revoke(self, run: str, steps: Iterable[int]) -> None:
        """Remove revoked steps, except those already started."""
        with self._lock:
            for lease in {(run, step) for step in steps} - self._started:
                self._held.pop(lease, None)

    def start(self, run: str, step: int) -> bool:
        """Mark a step as started; return False if it was revoked or is finished."""
        with self._lock:
            if (run, step) not in self._held:
                return False
            self._started.add((run, step))
            return True

    def finish(self, run: str, step: int) -> None:
        """Mark a step as finished: it was sent, or is no longer wanted."""
        with self._lock:
            self._held.pop((run, step), None)
            self._started.discard((run, step))
            self._done.append((run, step))

    def record_seconds(self, kind: str, seconds: float) -> None:
        """Record the seconds one batch took in one kind of work.

        The kinds are preparing and sending, which run concurrently.
        """
        with self._lock:
            before = self._seconds.get(kind, seconds)
            self._seconds[kind] = (1 - _WEIGHT) * before + _WEIGHT * seconds

    @property
    def pace(self) -> float:
        """Seconds per batch, those of the slowest kind of work."""
        return max(self._seconds.values(), default=0.0)

    @property
    def has_changes(self) -> bool:
        """True if the pace has changed so much that the dispatcher should be notified at once."""
        if not self._reported_pace:
            return self.pace > 0
        reported, pace = (max(_FASTEST, seconds) for seconds in (self._reported_pace, self.pace))
        return not reported / _CHANGE_FACTOR <= pace <= reported * _CHANGE_FACTOR

    def registration(self) -> list[m.Message]:
        """Return the registration messages for a new connection to the dispatcher."""
        with self._lock:
            self._done.clear()
            self._reported_pace = self.pace
            return [
                m.RegisterWorker(
                    worker=self._worker,
                    pid=self._pid,
                    seconds=self._reported_pace,
                    holds=_by_run(self._held),
                    runs=list(self._runs),
                )
            ]

    def heartbeat(self) -> m.Heartbeat:
        """Return the next heartbeat."""
        with self._lock:
            done, self._done = self._done, []
            self._reported_pace = self.pace
            return m.Heartbeat(seconds=self._reported_pace, done=_by_run(done))

    def leave(self) -> m.Leaving:
        """Return the notice that this worker finishes only the steps it has started."""
        with self._lock:
            return m.Leaving(keeps=_by_run(self._started))

    def wait_until_sent(self, patience: float) -> None:
        """Wait at most `patience` seconds until all started steps are finished."""
        deadline = time.monotonic() + patience
        while self._started and time.monotonic() < deadline:
            time.sleep(0.01)


def _by_run(leases: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for run, step in leases:
        found.setdefault(run, []).append(step)
    return found
