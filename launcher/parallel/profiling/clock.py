"""The seconds of passes, by module."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch

from launcher.parallel.profiling.passes import Watch


class Clock(Watch):
    """Measures. With a GPU each mark waits until it has done what it was given."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        #: Of each pass so far.
        self.there: Mapping[int, list[float]] = defaultdict(list)
        self.back: Mapping[int, list[float]] = defaultdict(list)

    @contextmanager
    def forward(self, number: int) -> Iterator[None]:
        began = self._now()
        yield
        self.there[number].append(self._now() - began)

    @contextmanager
    def backward(self, number: int) -> Iterator[None]:
        began = self._now()
        yield
        self.back[number].append(self._now() - began)

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()


def spread(values: Sequence[float]) -> float:
    """Half the distance between the quartiles; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2
