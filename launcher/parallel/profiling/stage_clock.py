"""Timing of passes, by module."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from launcher.parallel.profiling.passes import PassRecorder


class StageClock(PassRecorder):
    """Measures seconds.

    On a GPU they are those between marks in its queue, which is never waited for: the time that the
    device needs, and that of the launches only where it has to wait for them, as in training.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._forward: dict[int, list[tuple[Any, Any]]] = defaultdict(list)
        self._backward: dict[int, list[tuple[Any, Any]]] = defaultdict(list)

    @property
    def forward_seconds(self) -> Mapping[int, list[float]]:
        """Seconds of each forward pass so far, by module."""
        return self._seconds(self._forward)

    @property
    def backward_seconds(self) -> Mapping[int, list[float]]:
        """Seconds of each backward pass so far, by module."""
        return self._seconds(self._backward)

    @contextmanager
    def forward(self, number: int) -> Iterator[None]:
        """Time a module's forward pass."""
        began = self._mark()
        yield
        self._forward[number].append((began, self._mark()))

    @contextmanager
    def backward(self, number: int) -> Iterator[None]:
        """Time a module's backward pass."""
        began = self._mark()
        yield
        self._backward[number].append((began, self._mark()))

    def _mark(self) -> Any:
        """Return the time, or an event of the GPU's that will have it."""
        if self._device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def _seconds(self, spans: Mapping[int, list[tuple[Any, Any]]]) -> Mapping[int, list[float]]:
        if self._device.type != "cuda":
            return {n: [end - began for began, end in each] for n, each in spans.items()}
        torch.cuda.synchronize(self._device)
        return {
            n: [began.elapsed_time(end) / 1000 for began, end in each] for n, each in spans.items()
        }


def spread(values: Sequence[float]) -> float:
    """Return half the distance between the quartiles; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2
