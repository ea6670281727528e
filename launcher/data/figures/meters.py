"""What each process of the data service counts of itself. Cheap: no lock, no I/O on a batch's way.

A meter is written by one thread and read by another, once a second; a reading may be one batch
behind. Its numbers only grow, from the start of its process, so that a lost report costs nothing.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import time
from collections.abc import Callable, Mapping

from launcher.data.figures.cpu import cpu_seconds, starved_seconds

#: Seconds between two reports of a process.
REPORT_SECONDS = 1.0

_LEAST_EXPONENT, _OCTAVES, _PER_OCTAVE = -20, 36, 4


class Waits:
    """How long waits took: their quantiles to within an eighth, in fixed memory (1 us to 4 h)."""

    def __init__(self) -> None:
        self._counts = [0] * (_OCTAVES * _PER_OCTAVE)
        self.longest = 0.0

    def add(self, seconds: float) -> None:
        mantissa, exponent = math.frexp(seconds)
        place = (exponent - _LEAST_EXPONENT) * _PER_OCTAVE + int((mantissa - 0.5) * 2 * _PER_OCTAVE)
        self._counts[min(max(place, 0), len(self._counts) - 1)] += 1
        if seconds > self.longest:
            self.longest = seconds

    def quantile(self, share: float) -> float:
        """Seconds that this share of the waits did not exceed; 0 when there were none."""
        rank = max(1, math.ceil(share * sum(self._counts)))
        for place, count in enumerate(self._counts):
            rank -= count
            if rank <= 0:
                return min(_middle(place), self.longest)
        return 0.0


def _middle(place: int) -> float:
    octave, part = divmod(place, _PER_OCTAVE)
    return math.ldexp(0.5 + (part + 0.5) / (2 * _PER_OCTAVE), octave + _LEAST_EXPONENT)


class EpochClock:
    """One pass over an epoch: seconds of waits, and in all. Moments are of time.perf_counter."""

    def __init__(self, meter: StreamMeter) -> None:
        self._meter = meter
        self._made = self._left = time.perf_counter()
        self._waits = Waits()
        self.inside = 0.0
        self.steps = 0
        self.first = 0.0

    def waited(self, since: float, until: float) -> None:
        """A wait that has given nothing."""
        self._left = until
        self.inside += until - since

    def count(self, since: float, until: float) -> None:
        """A wait that has given a batch."""
        self.waited(since, until)
        self._waits.add(until - since)
        self.steps += 1
        if self.steps == 1:
            self.first = until - since
        if until >= self._meter.due:
            self._meter.report(self, until)

    @property
    def total(self) -> float:
        return time.perf_counter() - self._made

    def so_far(self) -> float:
        """Seconds from the start to the end of the latest wait."""
        return self._left - self._made

    def fields(self) -> dict[str, object]:
        """What the epoch's line in the log says of the waits."""
        return {
            "wait_seconds": round(self.inside, 4),
            "total_seconds": round(self.total, 4),
            "waits": {
                "first": round(self.first, 6),
                "mean": round(self.inside / max(1, self.steps), 6),
                "p50": round(self._waits.quantile(0.5), 6),
                "p95": round(self._waits.quantile(0.95), 6),
                "max": round(self._waits.longest, 6),
            },
        }


@functools.cache
def epochs_so_far(stream: str) -> dict[str, float]:
    """What this process has read of a stream: its loaders, one after the other, count together."""
    return dict.fromkeys(("steps", "epochs", "wait", "total", "startup", "first_waits"), 0.0)


class StreamMeter:
    """One rank's reading of one stream, over its epochs.

    past: what was counted before, to which this adds.
    say: given the numbers at most once in REPORT_SECONDS, between two batches.
    """

    def __init__(self, past: dict[str, float], say: Callable[[Mapping[str, float]], None]) -> None:
        self._past = past
        self._say = say
        self.due = 0.0

    def begin(self) -> EpochClock:
        self.due = time.perf_counter() + REPORT_SECONDS
        return EpochClock(self)

    def report(self, clock: EpochClock, now: float) -> None:
        self.due = now + REPORT_SECONDS
        self._say(self._with(clock, clock.so_far()))

    def end(self, clock: EpochClock) -> None:
        """Add an epoch to those before; the numbers are said."""
        self._past.update(self._with(clock, clock.total))
        self._past["epochs"] += 1
        self._say(dict(self._past))

    def _with(self, clock: EpochClock, total: float) -> dict[str, float]:
        past = self._past
        is_first = past["epochs"] == 0
        return {
            "steps": past["steps"] + clock.steps,
            "epochs": past["epochs"],
            "wait": past["wait"] + clock.inside,
            "total": past["total"] + total,
            # The first batch of all waits for processes to start: that is no lack of workers.
            "startup": clock.first if is_first else past["startup"],
            "first_waits": 0.0 if is_first else past["first_waits"] + clock.first,
        }


class WorkerMeter:
    """Where a worker's time goes: preparing, blocked by its own sending, or without work.

    CPU time counts from here: that of the imports before is not for batches.
    """

    def __init__(self, cpus: int) -> None:
        self._cpus = cpus
        self._made = self._since = time.perf_counter()
        self._preparing = self._blocked = 0.0
        self._batches = self._bytes = self._given = 0
        self._cpu, self._starved = cpu_seconds(), starved_seconds()

    def begin(self) -> None:
        """A batch is begun; by the preparing thread, as are the next two."""
        self._since = time.perf_counter()

    def prepared(self) -> float:
        """Seconds since the batch was begun."""
        now = time.perf_counter()
        seconds = now - self._since
        self._preparing += seconds
        self._since = now
        self._given += 1
        return seconds

    def handed_over(self) -> None:
        """The sending thread has the batch, so that the next can be begun."""
        self._blocked += time.perf_counter() - self._since

    def sent(self, size: int) -> None:
        """By the sending thread: it has done with a batch of so many bytes."""
        self._batches += 1
        self._bytes += size

    def numbers(self) -> dict[str, float]:
        return {
            "batches": self._batches,
            "bytes": self._bytes,
            "preparing": self._preparing,
            "prepared": self._given,
            "blocked": self._blocked,
            "unsent": max(0, self._given - self._batches),
            "elapsed": time.perf_counter() - self._made,
            "cpu": cpu_seconds() - self._cpu,
            "starved": starved_seconds() - self._starved,
            "cpus": self._cpus,
        }


class ReceiverMeter:
    """What a receiver takes in, and how much of its memory is in use."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._made = time.perf_counter()
        self._batches = self._bytes = 0

    def arrived(self, size: int) -> None:
        """A batch of so many bytes has come."""
        self._batches += 1
        self._bytes += size

    def numbers(self, *, held: int, high: int) -> dict[str, float]:
        """held, high: bytes in use, and at most so far."""
        return {
            "batches": self._batches,
            "bytes": self._bytes,
            "held": held,
            "high": high,
            "budget": self._budget,
            "elapsed": time.perf_counter() - self._made,
            "cpu": cpu_seconds(),
        }


def report_regularly(report: Callable[[], None]) -> None:
    """Call `report` once in REPORT_SECONDS from a thread of its own, while that finds a way."""

    def run() -> None:
        pause = threading.Event()
        with contextlib.suppress(OSError):  # the dispatcher is gone, which others notice
            while True:
                report()
                pause.wait(REPORT_SECONDS)

    threading.Thread(target=run, name="reports", daemon=True).start()
