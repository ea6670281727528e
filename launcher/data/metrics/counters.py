"""Counters of each process of the data service, without locks or I/O in the path of a batch.

A counter is written by one thread and read by another, once a second; a value read may be one batch
old. The numbers only grow from the start of the process, so a lost report costs nothing.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import time
from collections.abc import Callable, Mapping

from launcher.data.metrics.cpu_time import cpu_seconds, starved_seconds
from launcher.data.metrics.wait_samples import WaitSamples
from launcher.shared import FEW_LATE, LATE, wait_share

#: Seconds between two reports of a process.
REPORT_SECONDS = 1.0

_LEAST_EXPONENT, _OCTAVES, _PER_OCTAVE = -20, 36, 4


class LatencyHistogram:
    """Latency histogram: quantiles to within an eighth, in fixed memory (1 us to 4 h)."""

    def __init__(self) -> None:
        self._counts = [0] * (_OCTAVES * _PER_OCTAVE)
        self.longest = 0.0

    def add(self, seconds: float) -> None:
        """Count one wait."""
        mantissa, exponent = math.frexp(seconds)
        bucket = (exponent - _LEAST_EXPONENT) * _PER_OCTAVE + int(
            (mantissa - 0.5) * 2 * _PER_OCTAVE
        )
        self._counts[min(max(bucket, 0), len(self._counts) - 1)] += 1
        if seconds > self.longest:
            self.longest = seconds

    def quantile(self, share: float) -> float:
        """Return the seconds that this share of the waits did not exceed; 0 without waits."""
        rank = max(1, math.ceil(share * sum(self._counts)))
        for bucket, count in enumerate(self._counts):
            rank -= count
            if rank <= 0:
                return min(_bucket_middle(bucket), self.longest)
        return 0.0

    def figures(self) -> dict[str, float]:
        """Return the quantiles for an event, the longest, and the seconds of late ones.

        Late are those that take several times the median, if they are few: what they take longer
        counts.
        """
        quantiles = {f"p{share}": self.quantile(share / 100) for share in (50, 95, 99)}
        found = {**quantiles, "max": self.longest, "late": self._late_seconds(quantiles["p50"])}
        return {name: round(seconds, 6) for name, seconds in found.items()}

    def _late_seconds(self, usual: float) -> float:
        late = [
            (count, _bucket_middle(bucket) - usual)
            for bucket, count in enumerate(self._counts)
            if count and _bucket_middle(bucket) > LATE * usual
        ]
        if sum(count for count, _ in late) > FEW_LATE * sum(self._counts):
            return 0.0
        return sum(count * longer for count, longer in late)


def _bucket_middle(bucket: int) -> float:
    octave, part = divmod(bucket, _PER_OCTAVE)
    return math.ldexp(0.5 + (part + 0.5) / (2 * _PER_OCTAVE), octave + _LEAST_EXPONENT)


class EpochClock:
    """Seconds of one pass over an epoch, in waits and in total, from time.perf_counter."""

    def __init__(self, counters: StreamCounters) -> None:
        self._counters = counters
        self._started_at = self._left = time.perf_counter()
        self._waits, self._own = LatencyHistogram(), LatencyHistogram()
        self._steps = LatencyHistogram()
        self.inside = 0.0
        self.steps = 0
        self.first = 0.0

    def waited(self, since: float, until: float) -> None:
        """Count a wait that returned no batch."""
        self._left = until
        self.inside += until - since

    def count(self, since: float, until: float) -> None:
        """Count a wait that returned a batch, and what the script did since the one before."""
        if self.steps:
            self._own.add(since - self._left)
            self._steps.add(until - self._left)
        self.waited(since, until)
        self._waits.add(until - since)
        self.steps += 1
        if self.steps == 1:
            self.first = until - since
        if until >= self._counters.due:
            self._counters.report(self, until)

    @property
    def total(self) -> float:
        """Seconds since the start of the epoch."""
        return time.perf_counter() - self._started_at

    def elapsed(self) -> float:
        """Return the seconds from the start to the end of the latest wait."""
        return self._left - self._started_at

    def usual_own(self) -> float:
        """Return the median of the script's own part of a step; 0 before the second step."""
        return self._own.quantile(0.5)

    def fields(self) -> dict[str, object]:
        """Return the fields of the epoch's log event: of waits, the script's own parts, steps."""
        return {
            "wait_seconds": round(self.inside, 4),
            "total_seconds": round(self.total, 4),
            "wait_share": wait_share(self.inside, self.total),
            "waits": {
                "first": round(self.first, 6),
                "mean": round(self.inside / max(1, self.steps), 6),
                **self._waits.figures(),
            },
            "own": self._own.figures(),
            "step": self._steps.figures(),
        }


@functools.cache
def stream_totals(stream: str) -> dict[str, float]:
    """Return this process's totals for a stream, which its successive loaders share."""
    return dict.fromkeys(("steps", "epochs", "wait", "total", "startup", "first_waits"), 0.0)


class StreamCounters:
    """Counters of one rank's reading of one stream, over its epochs.

    totals: the totals so far, to which this adds.
    send: called with the numbers at most once in REPORT_SECONDS, between two batches.
    """

    def __init__(
        self, totals: dict[str, float], send: Callable[[Mapping[str, float]], None]
    ) -> None:
        self._totals = totals
        self._send = send
        self.due = 0.0

    def begin(self) -> EpochClock:
        """Start the clock of an epoch."""
        self.due = time.perf_counter() + REPORT_SECONDS
        return EpochClock(self)

    def report(self, clock: EpochClock, now: float) -> None:
        """Report the numbers of the epoch in progress."""
        self.due = now + REPORT_SECONDS
        self._send(self._with(clock, clock.elapsed()))

    def end(self, clock: EpochClock) -> None:
        """Add a finished epoch to the totals, and report them."""
        self._totals.update(self._with(clock, clock.total))
        self._totals["epochs"] += 1
        self._send(dict(self._totals))

    def _with(self, clock: EpochClock, total: float) -> dict[str, float]:
        totals = self._totals
        is_first = totals["epochs"] == 0
        return {
            "steps": totals["steps"] + clock.steps,
            "epochs": totals["epochs"],
            "wait": totals["wait"] + clock.inside,
            "total": totals["total"] + total,
            # The very first batch waits for processes to start, not for workers.
            "startup": clock.first if is_first else totals["startup"],
            "first_waits": 0.0 if is_first else totals["first_waits"] + clock.first,
        }


class WorkerCounters:
    """Splits a worker's time into preparing, blocked by its own sending, and idle.

    CPU time counts from here, because the imports before it are not spent on batches.
    """

    def __init__(self, cpus: int) -> None:
        self._cpus = cpus
        self._started_at = self._since = time.perf_counter()
        self._preparing = self._blocked = 0.0
        self._longest = 0.0
        self._batches = self._bytes = self._given = 0
        self._cpu, self._starved = cpu_seconds(), starved_seconds()
        self._is_preparing = False
        self._samples: WaitSamples | None = None

    def begin(self) -> None:
        """Start a batch. The preparing thread calls this and the next two methods."""
        self._is_preparing = True
        if self._samples is None:
            self._samples = WaitSamples(
                lambda: "data" if self._is_preparing else None, names_code=False
            )
        self._since = time.perf_counter()

    def prepared(self) -> float:
        """Count a prepared batch; returns the seconds since it was started."""
        now, self._is_preparing = time.perf_counter(), False
        seconds = now - self._since
        self._preparing += seconds
        self._longest = max(self._longest, seconds)
        self._since = now
        self._given += 1
        return seconds

    def handed_over(self) -> None:
        """Record that the sending thread has the batch, so that the next can be started."""
        self._blocked += time.perf_counter() - self._since

    def sent(self, size: int) -> None:
        """Count a sent batch of `size` bytes; called by the sending thread."""
        self._batches += 1
        self._bytes += size

    def numbers(self) -> dict[str, float]:
        """Return the current numbers for a report."""
        return {
            "batches": self._batches,
            "bytes": self._bytes,
            "preparing": self._preparing,
            "prepared": self._given,
            "blocked": self._blocked,
            "unsent": max(0, self._given - self._batches),
            "elapsed": time.perf_counter() - self._started_at,
            "cpu": cpu_seconds() - self._cpu,
            "starved": starved_seconds() - self._starved,
            "cpus": self._cpus,
            "longest": self._longest,
            **(self._samples.by_kind() if self._samples else {}),
        }


class ReceiverCounters:
    """Counters of the batches that a receiver takes in, and of its memory in use."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._started_at = time.perf_counter()
        self._batches = self._bytes = 0

    def arrived(self, size: int) -> None:
        """Count a received batch of `size` bytes."""
        self._batches += 1
        self._bytes += size

    def numbers(self, *, held: int, high: int) -> dict[str, float]:
        """Return the current numbers for a report. held, high: bytes in use, and at most so far."""
        return {
            "batches": self._batches,
            "bytes": self._bytes,
            "held": held,
            "high": high,
            "budget": self._budget,
            "elapsed": time.perf_counter() - self._started_at,
            "cpu": cpu_seconds(),
        }


def report_regularly(report: Callable[[], None]) -> None:
    """Call `report` every REPORT_SECONDS from its own thread, until it raises OSError."""

    def run() -> None:
        pause = threading.Event()
        with contextlib.suppress(OSError):  # the dispatcher is gone; other threads handle that
            while True:
                report()
                pause.wait(REPORT_SECONDS)

    threading.Thread(target=run, name="reports", daemon=True).start()
