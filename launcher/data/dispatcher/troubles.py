"""What the dispatcher cannot mend: when to say so, and in which words. Pure: time is passed in."""

from __future__ import annotations

from launcher.data.dispatcher.ledger import Ledger
from launcher.data.dispatcher.runs import Run

#: Seconds without any worker, once there have been some, after which the ranks are told.
ABANDONED_AFTER = 60.0
#: Seconds that no worker has reached a receiver, though they try, after which its ranks are told.
UNREACHABLE_AFTER = 60.0
#: Seconds in which a worker that cannot reach a receiver says so again: who tries has 10 s to
#: connect, and a connection that is cut breaks after 30 s.
COMPLAINS_WITHIN = 45.0
#: Seconds that a rank leaves a batch lying before a line in the log names it.
IDLE_AFTER = 60.0
#: Seconds that a batch which a rank needs next is in the hands of workers before a line names it.
OVERDUE_AFTER = 30.0


class Troubles:
    """hosts: those that are expected to serve. start_timeout: seconds to wait for the first."""

    def __init__(self, hosts: tuple[str, ...], start_timeout: float, now: float) -> None:
        self._hosts = hosts
        self._start_timeout = start_timeout
        self._had_workers = False
        self._last_worker = now
        # Receivers: since when and until when workers have said so, and why.
        self._unreached: dict[str, tuple[float, float, str]] = {}
        self._named: set[str] = set()
        self._overdue: dict[str, int] = {}  # the latest step of a run that was named

    def had_workers(self) -> None:
        """There has been a worker: none is worse from now on."""
        self._had_workers = True

    def abandoned(self, ledger: Ledger, now: float, *, are_building: bool = False) -> str | None:
        """What to tell all ranks when nobody prepares batches.

        are_building: workers are connected, and may be silent because they read a large dataset in
        one call that keeps the interpreter to itself.
        """
        # A worker that is connected and silent (a frozen or lost host) serves nobody.
        self._last_worker = max([self._last_worker, *ledger.signs_of_life])
        silence = now - self._last_worker
        patience, word = self._start_timeout, "no data worker has registered"
        if self._had_workers:
            patience, word = ABANDONED_AFTER, "every data worker is gone or silent"
        if are_building:
            patience = max(patience, self._start_timeout)
        if silence <= patience:
            return None
        return f"{word} for {silence:.0f} s; data hosts: {', '.join(self._hosts)}"

    def unreachable(self, receiver: str, why: str, now: float) -> None:
        """A worker has tried to reach a receiver in vain."""
        since, _, _ = self._unreached.get(receiver, (now, now, ""))
        self._unreached[receiver] = (since, now, why)

    def reached(self, receiver: str) -> None:
        """A batch has arrived at a receiver."""
        self._unreached.pop(receiver, None)

    def unreached(self, now: float) -> list[tuple[str, str]]:
        """(receiver, what to tell its ranks) for those that nobody has reached for too long."""
        found = []
        for name, (since, until, why) in list(self._unreached.items()):
            if now - until > COMPLAINS_WITHIN:  # it was reached, but with nothing new
                del self._unreached[name]
            elif now - since > UNREACHABLE_AFTER:
                found.append((name, f"no data worker can reach the receiver of {name}: {why}"))
                del self._unreached[name]
        return found

    def idle(self, ledger: Ledger, now: float) -> list[tuple[int, str]]:
        """(rank, run) for ranks that have stopped to take their batches, each run once."""
        found = [run for run in ledger.idle(now, IDLE_AFTER) if run.name not in self._named]
        self._named.update(run.name for run in found)
        return [(run.rank, run.name) for run in found]

    def overdue(self, ledger: Ledger, now: float) -> list[tuple[Run, list[str]]]:
        """Runs whose next batch workers do not bring, and which workers; each batch once."""
        found = [
            (run, workers)
            for run, workers in ledger.overdue(now, OVERDUE_AFTER)
            if self._overdue.get(run.name) != run.head
        ]
        self._overdue.update((run.name, run.head) for run, _ in found)
        return found
