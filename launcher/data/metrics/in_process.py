"""Bottleneck report for a rank that loads its own data, from its loading times."""

from __future__ import annotations

import atexit
import functools
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from launcher.data.metrics.cpu_time import cpu_seconds, starved_seconds
from launcher.runtime import log_event
from launcher.shared import COMPUTING

#: Seconds between two measured batches: a measurement takes 20 us, which small batches do not.
_EVERY = 0.1

_Batch = TypeVar("_Batch")


class LoadingTimes:
    """Measures some of the batches that this process loads: seconds, CPU time, and lack of a CPU.

    The CPU time is that of all threads and children, as a dataset may decode in several.

    due: when the next measurement is, by time.perf_counter.
    """

    def __init__(self) -> None:
        self.due = 0.0
        self._seconds = self._cpu = self._starved = 0.0

    def load(self, load: Callable[[], _Batch]) -> _Batch:
        """Return what `load` returns, and measure it."""
        begin = time.perf_counter()
        cpu, starved = cpu_seconds(), starved_seconds()
        batch = load()
        end = time.perf_counter()
        self._seconds += end - begin
        self._cpu += cpu_seconds() - cpu
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


class InProcessMetrics:
    """Collects the metrics of one process's loaders; rank 0 logs the bottleneck at exit."""

    def __init__(self, rank: int, world: int) -> None:
        self._world = world
        self._figures: dict[str, Mapping[str, float]] = {}
        self._passes: list[Mapping[str, Any]] = []
        if rank == 0:
            atexit.register(self._print_final)
            # A fork that ends as a script does would print it again.
            os.register_at_fork(after_in_child=lambda: atexit.unregister(self._print_final))

    def record(self, stream: str, figures: Mapping[str, float]) -> None:
        """Store the latest metrics of a stream."""
        self._figures[stream] = figures

    def add_pass(self, fields: Mapping[str, Any]) -> None:
        """Keep the times of a pass, as its event has them."""
        self._passes.append(fields)

    def _print_final(self) -> None:
        from launcher.shared import close_own_loading

        each = self._figures.values()
        total, wait, steps = (sum(f[name] for f in each) for name in ("total", "wait", "steps"))
        found = close_own_loading(
            total, wait, steps, self._world, self._is_waiting(), passes=self._passes
        )
        if found is not None:
            log_event("data_verdict", **found.fields())

    def _is_waiting(self) -> bool | None:
        """Return whether loading mostly waits for something else than a CPU; None if unmeasured."""
        names = ("loading", "loading_cpu", "loading_starved")
        seconds, cpu, starved = (
            sum(figures.get(name, 0.0) for figures in self._figures.values()) for name in names
        )
        return cpu < COMPUTING * (seconds - starved) if seconds else None


@functools.cache
def this_process() -> InProcessMetrics:
    """Return the collector that all loaders of the process share.

    Their times are judged together, as they add up to the time of the process.
    """
    return InProcessMetrics(int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1)))
