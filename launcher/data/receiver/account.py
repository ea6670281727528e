"""What a receiver knows of its runs, and what of it is news to the dispatcher. Safe for threads.

The ranks and the receiver are the memory of the data service: a dispatcher that was started again
asks nobody else what was taken, and what has arrived.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from launcher.data.control import messages as m
from launcher.data.control.names import host_of

#: Seconds between two reports of progress: each costs the dispatcher as much as leasing a batch.
_PAUSE = 0.04
#: Arrivals and departures that are reported at once: workers that are fast need more.
_MANY = 64
#: So is this share of the memory, when it is free again: there may be room for few batches.
_MUCH = 1 / 2


@dataclass
class _Standing:
    """How far a run is. arrived: which worker prepared the steps that are not taken."""

    opened: m.OpenRun
    taken: int = 0
    early: set[int] = field(default_factory=set)
    arrived: dict[int, str] = field(default_factory=dict)
    largest: int = 0

    def take(self, step: int) -> str | None:
        worker = self.arrived.pop(step, None)
        if worker is not None:
            self.early.add(step)
        while self.taken in self.early:
            self.early.remove(self.taken)
            self.taken += 1
        return worker

    def told(self) -> m.OpenRun:
        return replace(
            self.opened,
            taken=self.taken,
            early=sorted(self.early),
            arrived=list(self.arrived.items()),
            largest=self.largest,
        )


class Account:
    """The runs of one receiver. What happens is noted by any thread, and told by one (`news`)."""

    def __init__(self, host: str, address: tuple[str, int], prefetch_bytes: int) -> None:
        self._host, self._address = host, address
        self._much = _MUCH * prefetch_bytes
        self._changed = threading.Condition()
        self._runs: dict[str, _Standing] = {}
        self._asked: dict[str, m.Describe] = {}
        self._prepared: Counter[str] = Counter()
        self._received: Counter[str] = Counter()
        self._reports: dict[str, m.Report] = {}  # the latest of each rank and stream
        self._news: list[m.Message] = []
        # What has arrived (a worker) and was taken (None), and is not entered above yet: one by one
        # it was measured to take several times as long, since receiving empties the caches.
        self._events: deque[tuple[str, int, str | None, int]] = deque()
        self._progress = m.Progress(arrived={}, taken={})
        self._steps = 0  # in the progress
        self._freed = 0  # bytes, at most, that are free again by it
        # The largest batch of each run, and whether one of the progress is larger: what workers
        # were leased before may be more than there is room for, until the dispatcher hears of it.
        self._largest: dict[str, int] = {}
        self._has_grown = False
        self._is_idle = False  # who tells the news
        self._told = 0.0  # when there was news last
        self._is_leaving = False

    def open(self, opened: m.OpenRun) -> None:
        with self._changed:
            self._runs[opened.run] = _Standing(opened)
            self._tell(opened)

    def close(self, run: str) -> None:
        with self._changed:
            self._enter()
            self._runs.pop(run, None)
            self._largest.pop(run, None)
            self._tell(m.CloseRun(run=run))

    def confirm(self, run: str) -> None:
        """A run is read still."""
        with self._changed:
            if run in self._runs:
                self._tell(m.Confirmed(run=run))

    def ask(self, question: m.Describe) -> None:
        with self._changed:
            self._asked[question.dataset] = question
            self._tell(question)

    def answered(self, dataset: str) -> None:
        with self._changed:
            self._asked.pop(dataset, None)

    def arrived(self, run: str, step: int, worker: str, size: int) -> None:
        """The first copy of a batch is here, in shared memory of so many bytes."""
        self._events.append((run, step, worker, size))
        if size > self._largest.get(run, 0):
            self._largest[run], self._has_grown = size, True
        # A thread that is woken in vain fights the receiving one.
        if self._is_idle or self._is_due():
            with self._changed:
                self._changed.notify()

    def damaged(self, run: str, step: int, worker: str) -> None:
        """A batch came damaged, and its connection was closed."""
        with self._changed:
            self._tell(m.Damaged(run=run, step=step, worker=worker))

    def seen_taken(self, run: str, step: int, size: int) -> None:
        """A rank has marked a batch as taken; that is told with what arrives, or was said."""
        self._freed += size
        self._events.append((run, step, None, size))

    def taken(self, run: str, steps: Iterable[int]) -> None:
        """A rank has said that it has taken batches out of the loader."""
        with self._changed:
            self._enter()
            if standing := self._runs.get(run):
                self._freed += standing.largest * sum(self._take(standing, step) for step in steps)
                if self._is_idle or self._is_due():
                    self._changed.notify()

    def pass_on(self, report: m.Report) -> None:
        """What a rank has counted; a dispatcher that was started again is told it as well."""
        with self._changed:
            self._reports[report.of] = report
            self._tell(report)

    def hello(self) -> list[m.Message]:
        """The first words to a dispatcher: all of it."""
        with self._changed:
            self._enter()
            hello = m.HelloReceiver(
                host=self._host,
                address=self._address,
                runs=[standing.told().encode() for standing in self._runs.values()],
                prepared=dict(self._prepared),
                received=dict(self._received),
            )
            said = (*self._reports.values(), *self._asked.values())
            return [hello, *said, *([m.Farewell()] if self._is_leaving else [])]

    def news(self) -> list[m.Message]:
        """Wait for something to tell; all of it, in order.

        Progress soon after the news before is told with what comes meanwhile.
        """
        with self._changed:
            pause = self._told + _PAUSE - time.monotonic()
            self._changed.wait_for(self._is_due, max(0.0, pause))
            self._is_idle = True
            self._changed.wait_for(lambda: self._news or self._events or self._steps)
            self._is_idle = False
            self._close_progress()
            news, self._news = self._news, []
            self._told = time.monotonic()
            return news

    def leave(self) -> None:
        """Nothing more will happen."""
        with self._changed:
            self._is_leaving = True
            self._tell(m.Farewell())

    def _is_due(self) -> bool:
        noted = len(self._events) + self._steps
        is_much = noted >= _MANY or self._freed >= self._much
        return is_much or self._has_grown or bool(self._news)

    def _enter(self) -> None:
        """Enter what was noted, in order."""
        while self._events:
            run, step, worker, size = self._events.popleft()
            if (standing := self._runs.get(run)) is None:
                continue
            if worker is None:
                self._take(standing, step)
            else:
                standing.arrived[step] = worker
                standing.largest = max(standing.largest, size)
                self._progress.arrived.setdefault(run, []).append((step, worker, size))
                self._steps += 1

    def _take(self, standing: _Standing, step: int) -> bool:
        """Enter that a batch was taken; False when that was known."""
        if (worker := standing.take(step)) is None:
            return False
        self._prepared[host_of(worker)] += 1
        self._received[str(standing.opened.rank)] += 1
        self._progress.taken.setdefault(standing.opened.run, []).append(step)
        self._steps += 1
        return True

    def _tell(self, message: m.Message) -> None:
        self._close_progress()  # the order of what happened is kept
        self._news.append(message)
        self._changed.notify()

    def _close_progress(self) -> None:
        self._has_grown = False
        self._enter()
        self._freed = 0
        if self._steps:
            self._news.append(self._progress)
            self._progress = m.Progress(arrived={}, taken={})
            self._steps = 0
