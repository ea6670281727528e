"""The use of the CPU by a rank that loads its batches itself, from a sample of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from launcher.data.metrics.cpu_time import starved_seconds

#: Seconds between two measured batches: a measurement takes 20 us, which small batches do not.
_EVERY = 0.1

_Batch = TypeVar("_Batch")


class LoadingTimes:
    """Measures some of the batches that this process loads: seconds, CPU time, and lack of a CPU.

    The CPU time is that of all threads, as a dataset may decode in several.

    due: when the next measurement is, by time.perf_counter.
    """

    def __init__(self) -> None:
        self.due = 0.0
        self._seconds = self._cpu = self._starved = 0.0

    def load(self, load: Callable[[], _Batch]) -> _Batch:
        """Return what `load` returns, and measure it."""
        begin = time.perf_counter()
        cpu, starved = time.process_time(), starved_seconds()
        batch = load()
        end = time.perf_counter()
        self._seconds += end - begin
        self._cpu += time.process_time() - cpu
        self._starved += starved_seconds() - starved
        self.due = begin + _EVERY
        return batch

    def figures(self) -> dict[str, float]:
        """Return the sums over the measured batches; none without any."""
        if not self._seconds:
            return {}
        return {
            "loading": self._seconds,
            "loading_cpu": self._cpu,
            "loading_starved": min(self._starved, self._seconds),
        }
