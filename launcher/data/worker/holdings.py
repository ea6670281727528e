"""What a worker holds, and how fast it is, for the dispatcher. Safe for threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from launcher.data.control import messages as m

#: A change of pace by this factor is said at once, but not of workers that take fewer seconds for a
#: batch: they are leased as many as any can hold.
_NEWS = 2.0
_FASTEST = 0.0015
#: The weight of the latest batch in the pace.
_WEIGHT = 0.2


class Holdings:
    """The steps that a worker was leased and has not done with, in order."""

    def __init__(self, worker: str, pid: int) -> None:
        self._worker, self._pid = worker, pid
        self._lock = threading.Lock()
        self._runs: dict[str, None] = {}
        self._held: dict[tuple[str, int], None] = {}
        self._begun: set[tuple[str, int]] = set()
        self._done: list[tuple[str, int]] = []
        self._seconds: dict[str, float] = {}  # for each kind of work that goes on side by side
        self._told = 0.0

    def define(self, run: str) -> None:
        """This worker knows what a run is."""
        with self._lock:
            self._runs[run] = None

    def forget(self, run: str) -> None:
        with self._lock:
            self._runs.pop(run, None)

    def lease(self, run: str, steps: Iterable[int]) -> None:
        with self._lock:
            self._held.update(dict.fromkeys((run, step) for step in steps))

    def revoke(self, run: str, steps: Iterable[int]) -> None:
        """These are not this worker's any more, but for those that it has begun."""
        with self._lock:
            for lease in {(run, step) for step in steps} - self._begun:
                self._held.pop(lease, None)

    def begin(self, run: str, step: int) -> bool:
        """False for a step that was taken back, or that is done."""
        with self._lock:
            if (run, step) not in self._held:
                return False
            self._begun.add((run, step))
            return True

    def finish(self, run: str, step: int) -> None:
        """A step is sent, or it is not wanted any more."""
        with self._lock:
            self._held.pop((run, step), None)
            self._begun.discard((run, step))
            self._done.append((run, step))

    def took(self, kind: str, seconds: float) -> None:
        """One batch took so long to prepare, or to send: they go on side by side."""
        with self._lock:
            before = self._seconds.get(kind, seconds)
            self._seconds[kind] = (1 - _WEIGHT) * before + _WEIGHT * seconds

    @property
    def pace(self) -> float:
        """Seconds for a batch: those of the slowest kind of work."""
        return max(self._seconds.values(), default=0.0)

    @property
    def has_news(self) -> bool:
        """Whether the pace has changed so much that the dispatcher should know at once."""
        if not self._told:
            return self.pace > 0
        told, pace = (max(_FASTEST, seconds) for seconds in (self._told, self.pace))
        return not told / _NEWS <= pace <= told * _NEWS

    def hello(self) -> list[m.Message]:
        """The first words to a dispatcher."""
        with self._lock:
            self._done.clear()
            self._told = self.pace
            return [
                m.HelloWorker(
                    worker=self._worker,
                    pid=self._pid,
                    seconds=self._told,
                    holds=_by_run(self._held),
                    runs=list(self._runs),
                )
            ]

    def beat(self) -> m.Beat:
        """The next sign of life."""
        with self._lock:
            done, self._done = self._done, []
            self._told = self.pace
            return m.Beat(seconds=self._told, done=_by_run(done))

    def leave(self) -> m.Leaving:
        """The word that this worker finishes what it has begun, and nothing more."""
        with self._lock:
            return m.Leaving(keeps=_by_run(self._begun))

    def wait_until_sent(self, patience: float) -> None:
        """Wait until all that was begun is done."""
        deadline = time.monotonic() + patience
        while self._begun and time.monotonic() < deadline:
            time.sleep(0.01)


def _by_run(leases: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for run, step in leases:
        found.setdefault(run, []).append(step)
    return found
