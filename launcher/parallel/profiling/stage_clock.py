"""Timing of passes, by module."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch

from launcher.parallel.profiling.passes import PassRecorder


class StageClock(PassRecorder):
    """Measures seconds. On a GPU each reading waits for all queued work."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        #: Seconds of each pass so far, by module: forward and backward.
        self.forward_seconds: Mapping[int, list[float]] = defaultdict(list)
        self.backward_seconds: Mapping[int, list[float]] = defaultdict(list)

    @contextmanager
    def forward(self, number: int) -> Iterator[None]:
        """Time a module's forward pass."""
        began = self._now()
        yield
        self.forward_seconds[number].append(self._now() - began)

    @contextmanager
    def backward(self, number: int) -> Iterator[None]:
        """Time a module's backward pass."""
        began = self._now()
        yield
        self.backward_seconds[number].append(self._now() - began)

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()


def spread(values: Sequence[float]) -> float:
    """Return half the distance between the quartiles; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2
