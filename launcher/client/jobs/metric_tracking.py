"""Tracking of a job's metrics while it is followed: whatever a tracker does, the job goes on."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Protocol, TypeVar

from launcher.client.jobs.group_hosts import group_of_hosts
from launcher.client.jobs.metric_records import MetricRecord

if TYPE_CHECKING:
    from launcher.client.jobs.job import Job
    from launcher.client.spec import Tracking

#: Seconds between two writes, each of all values that came since the last.
_PERIOD_SECONDS = 1.0
#: Seconds to wait for the trackers to close: after the job has ended, and after an error.
_LAST_SECONDS, _ERROR_SECONDS = 60.0, 5.0

_Notify = Callable[[str], None]


class Tracker(Protocol):
    """Writes the metrics of one job; any method may raise; the job is not affected."""

    def log(self, records: Sequence[MetricRecord]) -> None:
        """Write values, by time; each has a step."""

    def close(self, status: str | None) -> None:
        """End the tracking. status: the job's TrainingJobStatus; None if the job goes on."""


@contextmanager
def tracked(
    job: Job, tracking: Tracking | None, notify: _Notify
) -> Iterator[MetricTracking | None]:
    """Open a job's trackers in the block, and close them at its end.

    notify: called in this thread with a sentence about a tracker that failed.
    """
    if tracking is None:
        yield None
        return
    # The spec is slow to import.
    from launcher.client.jobs.trackers.tracker_factories import openers

    has_many_hosts = len(group_of_hosts(job.description(notify))) > 1
    opened = MetricTracking(openers(tracking, job.name, has_many_hosts=has_many_hosts), notify)
    try:
        yield opened
    except BaseException:
        opened.close(_ERROR_SECONDS)
        raise
    opened.close(_LAST_SECONDS)


class MetricTracking:
    """Writes values to trackers, each in a thread of its own.

    A tracker that raises is reported once and gets nothing more; one that blocks delays nobody.

    openers: what opens each tracker, by its name. status: the job's TrainingJobStatus, once it has
    ended.
    """

    def __init__(self, openers: Mapping[str, Callable[[], Tracker]], notify: _Notify) -> None:
        self._notify = notify
        self._values = {name: SimpleQueue[MetricRecord]() for name in openers}
        self._notices: SimpleQueue[str] = SimpleQueue()
        self._steps: Counter[tuple[str, str | None]] = Counter()
        self.status: str | None = None
        self._is_over = threading.Event()
        self._threads = {
            name: threading.Thread(target=self._run, args=(name, opener), name=name, daemon=True)
            for name, opener in openers.items()
        }
        for thread in self._threads.values():
            thread.start()

    def take(self, record: MetricRecord) -> None:
        """Take a value; those without a training step are counted, by metric and host."""
        key = (record.metric_name, record.host)
        step = self._steps[key] if record.step is None else record.step
        self._steps[key] += 1
        numbered = dataclasses.replace(record, step=step)
        for name, thread in self._threads.items():
            if thread.is_alive():
                self._values[name].put(numbered)

    def report(self) -> None:
        """Report the trackers that have failed."""
        for notice in _drained(self._notices):
            self._notify(notice)

    def close(self, seconds: float) -> None:
        """Write what is left and close the trackers; give up after some seconds in all."""
        self._is_over.set()
        until = time.monotonic() + seconds
        for thread in self._threads.values():
            thread.join(max(0.0, until - time.monotonic()))
        self.report()
        for name, thread in self._threads.items():
            if thread.is_alive():
                self._notify(
                    f"tracking by {name} has not ended after {seconds:.0f} s: its last values are "
                    "lost"
                )

    def _run(self, name: str, opener: Callable[[], Tracker]) -> None:
        """Open a tracker, write its values as they come, and close it; report what it raises."""
        try:
            tracker = opener()
            is_over = False
            while not is_over:
                is_over = self._is_over.wait(_PERIOD_SECONDS)
                if values := list(_drained(self._values[name])):
                    tracker.log(values)
            tracker.close(self.status)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - other libraries, the user's code
            cause = f"{type(error).__name__}: {error}".splitlines()[0]
            self._notices.put(f"tracking by {name} has failed, and the job goes on: {cause}")


_Item = TypeVar("_Item")


def _drained(queue: SimpleQueue[_Item]) -> Iterator[_Item]:
    with suppress(Empty):
        while True:
            yield queue.get_nowait()
