"""Health monitor: detect lost receivers, idle ranks, overdue batches, and a job without workers.

The silence and death of one worker, which leasing repairs, are in the worker pool and the lease
scheduler. Pure.
"""

from __future__ import annotations

from launcher.data.dispatcher.epoch_reads import EpochRead
from launcher.data.dispatcher.lease_scheduler import LeaseScheduler

#: Seconds without any worker, once there has been one, after which the ranks are notified.
ABANDONED_AFTER = 60.0
#: Seconds in which workers fail to reach a receiver before its ranks are notified.
UNREACHABLE_AFTER = 60.0
#: Seconds within which a worker that cannot reach a receiver reports it again: an attempt to
#: connect lasts up to 10 s, and a cut connection breaks after 30 s.
REPEATED_WITHIN = 45.0
#: Seconds without a message from a receiver after which nothing is leased for it, and after which
#: its ranks' epoch reads are closed. A receiver sends its metrics once a second.
RECEIVER_SILENT_AFTER = 5.0
RECEIVER_LOST_AFTER = 60.0
#: Seconds that a rank leaves a batch unconsumed before an event names it.
IDLE_AFTER = 60.0
#: Seconds that the next batch of a rank is leased before an event names it.
OVERDUE_AFTER = 30.0


class HealthMonitor:
    """Detects missing workers, unreachable receivers, idle ranks and overdue batches.

    hosts: those that are expected to serve. start_timeout: seconds to wait for the first worker.
    The time is passed in.
    """

    def __init__(self, hosts: tuple[str, ...], start_timeout: float, now: float) -> None:
        self._hosts = hosts
        self._start_timeout = start_timeout
        self._had_workers = False
        self._last_worker = now
        # By receiver: the first and the latest failure that workers reported, and the reason.
        self._unreached: dict[str, tuple[float, float, str]] = {}
        self._reported_idle: set[str] = set()
        self._seen: dict[str, float] = {}  # by connected receiver, its latest message
        self._silent: set[str] = set()
        self._overdue: dict[str, int] = {}  # by epoch read, the latest step that was reported

    def record_workers(self) -> None:
        """Record that there are workers, so that losing all of them is a failure from now on."""
        self._had_workers = True

    def no_worker_error(
        self, scheduler: LeaseScheduler, now: float, *, are_building: bool = False
    ) -> str | None:
        """Return the error for all ranks if no worker prepares batches, else None.

        are_building: workers are connected but may be silent, because they build a large dataset in
        one call that holds the interpreter lock.
        """
        # A worker that is connected but silent (a frozen or lost host) serves no rank.
        self._last_worker = max([self._last_worker, *scheduler.signs_of_life])
        silence = now - self._last_worker
        patience, word = self._start_timeout, "no data worker has registered"
        if self._had_workers:
            patience, word = ABANDONED_AFTER, "every data worker is gone or silent"
        if are_building:
            patience = max(patience, self._start_timeout)
        if silence <= patience:
            return None
        return f"{word} for {silence:.0f} s; data hosts: {', '.join(self._hosts)}"

    def record_unreachable(self, receiver: str, why: str, now: float) -> None:
        """Record that a worker has failed to reach a receiver."""
        since, _, _ = self._unreached.get(receiver, (now, now, ""))
        self._unreached[receiver] = (since, now, why)

    def record_reached(self, receiver: str) -> None:
        """Record that a batch has arrived at a receiver."""
        self._unreached.pop(receiver, None)

    def unreachable_receivers(self, now: float) -> list[tuple[str, str]]:
        """Return (receiver, error for its ranks) for receivers unreached for too long."""
        found = []
        for name, (since, until, why) in list(self._unreached.items()):
            if now - until > REPEATED_WITHIN:  # reached since, but with nothing new
                del self._unreached[name]
            elif now - since > UNREACHABLE_AFTER:
                found.append((name, f"no data worker can reach the receiver of {name}: {why}"))
                del self._unreached[name]
        return found

    def record_receiver(self, name: str, now: float, *, reports: bool) -> bool:
        """Record a sign of life of a receiver; return whether it was silent.

        reports: it has sent metrics, which it does regularly from then on.
        """
        if reports or name in self._seen:
            self._seen[name] = now
        was_silent = name in self._silent
        self._silent.discard(name)
        return was_silent

    def forget_receiver(self, name: str) -> None:
        """Forget a receiver whose connection has ended."""
        self._seen.pop(name, None)
        self._silent.discard(name)

    def newly_silent(self, now: float) -> list[str]:
        """Return the connected receivers that have fallen silent since the last call."""
        found = [
            name
            for name, seen in self._seen.items()
            if now - seen > RECEIVER_SILENT_AFTER and name not in self._silent
        ]
        self._silent.update(found)
        return found

    def lost_receivers(self, now: float) -> list[tuple[str, str]]:
        """Return (receiver, error for all ranks) for receivers that are silent for too long."""
        found = [name for name in self._silent if now - self._seen[name] > RECEIVER_LOST_AFTER]
        for name in found:
            self.forget_receiver(name)
        return [
            (
                name,
                f"the receiver of {name} has been silent for {RECEIVER_LOST_AFTER:.0f} s: its "
                "host is frozen or cut off",
            )
            for name in found
        ]

    def newly_idle(self, scheduler: LeaseScheduler, now: float) -> list[tuple[int, str]]:
        """Return (rank, epoch read) of ranks that stopped consuming; each is reported once."""
        found = [
            run for run in scheduler.idle(now, IDLE_AFTER) if run.name not in self._reported_idle
        ]
        self._reported_idle.update(run.name for run in found)
        return [(run.rank, run.name) for run in found]

    def newly_overdue(
        self, scheduler: LeaseScheduler, now: float
    ) -> list[tuple[EpochRead, list[str]]]:
        """Return the epoch reads whose next batch is overdue, and the workers that hold it.

        Each batch is reported once.
        """
        found = [
            (run, workers)
            for run, workers in scheduler.overdue(now, OVERDUE_AFTER)
            if self._overdue.get(run.name) != run.head
        ]
        self._overdue.update((run.name, run.head) for run, _ in found)
        return found
