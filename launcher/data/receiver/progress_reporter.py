"""Progress of a receiver's epoch reads, and what of it to report to the dispatcher. Thread-safe.

The ranks and the receiver hold the state of the data service: a restarted dispatcher learns only
from them what was consumed and what has arrived.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from launcher.data.control import host_of
from launcher.data.control import messages as m

#: Seconds between progress reports: each costs the dispatcher as much as leasing a batch.
_REPORT_INTERVAL = 0.04
#: Number of arrivals and consumed batches that is reported at once: fast workers need new leases.
_REPORT_AT = 64
#: Share of the memory that is reported at once when freed: there may be room for few batches.
_FREED_SHARE = 1 / 2


@dataclass
class _RunState:
    """Progress of one epoch read.

    arrived: the workers that prepared the steps not consumed yet, by step.
    """

    opened: m.OpenRun
    taken: int = 0
    early: set[int] = field(default_factory=set)
    arrived: dict[int, str] = field(default_factory=dict)
    largest: int = 0

    def consume(self, step: int) -> str | None:
        worker = self.arrived.pop(step, None)
        if worker is not None:
            self.early.add(step)
        while self.taken in self.early:
            self.early.remove(self.taken)
            self.taken += 1
        return worker

    def to_message(self) -> m.OpenRun:
        return replace(
            self.opened,
            taken=self.taken,
            early=sorted(self.early),
            arrived=list(self.arrived.items()),
            largest=self.largest,
        )


class ProgressReporter:
    """The epoch reads of one receiver; any thread records events, one reports them."""

    def __init__(self, host: str, address: tuple[str, int], prefetch_bytes: int) -> None:
        self._host, self._address = host, address
        self._freed_limit = _FREED_SHARE * prefetch_bytes
        self._changed = threading.Condition()
        self._runs: dict[str, _RunState] = {}
        self._asked: dict[str, m.Describe] = {}
        self._prepared: Counter[str] = Counter()
        self._received: Counter[str] = Counter()
        self._reports: dict[str, m.Report] = {}  # the latest report of each rank and stream
        self._messages: list[m.Message] = []
        # Queued arrivals (with a worker) and consumed batches (with None). Applying them one by one
        # was measured to take several times as long, because receiving evicts the caches.
        self._events: deque[tuple[str, int, str | None, int]] = deque()
        self._progress = m.ProgressUpdate(arrived={}, taken={})
        self._steps = 0  # number of steps in _progress
        self._freed = 0  # upper bound of the bytes it frees
        # The largest batch of each epoch read, and whether the unreported progress has a larger
        # one. Until the dispatcher is notified, earlier leases may exceed the memory.
        self._largest: dict[str, int] = {}
        self._has_grown = False
        self._is_idle = False  # the reporting thread is waiting
        self._reported_at = 0.0  # time of the latest report
        self._is_leaving = False

    def open(self, opened: m.OpenRun) -> None:
        """Record a new epoch read."""
        with self._changed:
            self._runs[opened.run] = _RunState(opened)
            self._send(opened)

    def close(self, run: str) -> None:
        """Record the end of an epoch read."""
        with self._changed:
            self._apply_events()
            self._runs.pop(run, None)
            self._largest.pop(run, None)
            self._send(m.CloseRun(run=run))

    def confirm(self, run: str) -> None:
        """Report that an epoch read is still in use, if it is open."""
        with self._changed:
            if run in self._runs:
                self._send(m.Confirmed(run=run))

    def ask(self, question: m.Describe) -> None:
        """Send a question to the dispatcher, and again to a restarted one until it is answered."""
        with self._changed:
            self._asked[question.dataset] = question
            self._send(question)

    def answered(self, dataset: str) -> None:
        """Record that the question about a dataset was answered."""
        with self._changed:
            self._asked.pop(dataset, None)

    def arrived(self, run: str, step: int, worker: str, size: int) -> None:
        """Record the first copy of a batch; `size` is that of its slab in bytes."""
        self._events.append((run, step, worker, size))
        if size > self._largest.get(run, 0):
            self._largest[run], self._has_grown = size, True
        # A needless wake-up competes with the receiving thread.
        if self._is_idle or self._is_due():
            with self._changed:
                self._changed.notify()

    def damaged(self, run: str, step: int, worker: str) -> None:
        """Record that a batch arrived damaged and its connection was closed."""
        with self._changed:
            self._send(m.Damaged(run=run, step=step, worker=worker))

    def record_consumed_mark(self, run: str, step: int, size: int) -> None:
        """Record that a rank has marked a batch as consumed.

        It is reported with the next arrivals, or the rank may have reported it already.
        """
        self._freed += size
        self._events.append((run, step, None, size))

    def consumed(self, run: str, steps: Iterable[int]) -> None:
        """Record a rank's message that it has consumed batches from the loader."""
        with self._changed:
            self._apply_events()
            if state := self._runs.get(run):
                self._freed += state.largest * sum(self._consume(state, step) for step in steps)
                if self._is_idle or self._is_due():
                    self._changed.notify()

    def forward_report(self, report: m.Report) -> None:
        """Forward a rank's metrics; a restarted dispatcher receives the latest again."""
        with self._changed:
            self._reports[report.of] = report
            self._send(report)

    def registration(self) -> list[m.Message]:
        """Return the registration messages for a new connection: the complete state."""
        with self._changed:
            self._apply_events()
            registration = m.RegisterReceiver(
                host=self._host,
                address=self._address,
                runs=[state.to_message().encode() for state in self._runs.values()],
                prepared=dict(self._prepared),
                received=dict(self._received),
            )
            resent = (*self._reports.values(), *self._asked.values())
            return [registration, *resent, *([m.Goodbye()] if self._is_leaving else [])]

    def wait_for_messages(self) -> list[m.Message]:
        """Wait for events; return all messages to send, in order.

        Progress that follows the previous report closely is delayed and combined with what comes
        next.
        """
        with self._changed:
            pause = self._reported_at + _REPORT_INTERVAL - time.monotonic()
            self._changed.wait_for(self._is_due, max(0.0, pause))
            self._is_idle = True
            self._changed.wait_for(lambda: self._messages or self._events or self._steps)
            self._is_idle = False
            self._close_progress()
            messages, self._messages = self._messages, []
            self._reported_at = time.monotonic()
            return messages

    def leave(self) -> None:
        """Record that nothing more will happen."""
        with self._changed:
            self._is_leaving = True
            self._send(m.Goodbye())

    def _is_due(self) -> bool:
        noted = len(self._events) + self._steps
        is_much = noted >= _REPORT_AT or self._freed >= self._freed_limit
        return is_much or self._has_grown or bool(self._messages)

    def _apply_events(self) -> None:
        """Apply the queued events, in order."""
        while self._events:
            run, step, worker, size = self._events.popleft()
            if (state := self._runs.get(run)) is None:
                continue
            if worker is None:
                self._consume(state, step)
            else:
                state.arrived[step] = worker
                state.largest = max(state.largest, size)
                self._progress.arrived.setdefault(run, []).append((step, worker, size))
                self._steps += 1

    def _consume(self, state: _RunState, step: int) -> bool:
        """Record a consumed batch; return False if that was known."""
        if (worker := state.consume(step)) is None:
            return False
        self._prepared[host_of(worker)] += 1
        self._received[str(state.opened.rank)] += 1
        self._progress.taken.setdefault(state.opened.run, []).append(step)
        self._steps += 1
        return True

    def _send(self, message: m.Message) -> None:
        self._close_progress()  # keeps the order of events
        self._messages.append(message)
        self._changed.notify()

    def _close_progress(self) -> None:
        self._has_grown = False
        self._apply_events()
        self._freed = 0
        if self._steps:
            self._messages.append(self._progress)
            self._progress = m.ProgressUpdate(arrived={}, taken={})
            self._steps = 0
