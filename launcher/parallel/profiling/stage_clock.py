"""Timing of passes and of the optimizer's step, by module."""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import nn

from launcher.parallel.profiling.bytes import ProcessMemory, known_bytes
from launcher.parallel.profiling.passes import PassRecorder

#: Makes an optimizer of parameters.
MakeOptimizer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]
#: Steps of an optimizer before those that are timed, and those.
_FIRST, _STEPS = 1, 4
#: Small parameters beside one, by which a step's own seconds are found.
_MORE = 4
#: Bytes that are written between them, more than the caches of a core hold: in training, all other
#: parameters are updated meanwhile.
_CACHES = 2**23


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


class Update(NamedTuple):
    """An optimizer's step. passing: the most bytes that it needs while it runs."""

    seconds: float
    passing: int


def updates_of(
    modules: Iterable[nn.Module], make: MakeOptimizer, memory: ProcessMemory
) -> list[Update]:
    """Measure an optimizer's step on copies of the trained parameters of each module.

    Seconds of a step of any optimizer are left out, since a stage of several modules has them once.
    """
    one, many = (
        _update([torch.zeros(1, device=memory.device)] * count, make, memory).seconds
        for count in (1, 1 + _MORE)
    )
    any_step = max(0.0, one - (many - one) / _MORE)
    return [
        _update(
            [each for each in module.parameters() if each.requires_grad], make, memory, any_step
        )
        for module in modules
    ]


def _update(
    trained: Sequence[torch.Tensor],
    make: MakeOptimizer,
    memory: ProcessMemory,
    any_step: float = 0.0,
) -> Update:
    if not trained:
        return Update(0.0, 0)
    copies = [nn.Parameter(each.detach().clone()) for each in trained]
    for each in copies:
        each.grad = torch.full_like(each, 1e-3)
    optimizer, clock = make(copies), StageClock(memory.device)
    other = torch.empty(_CACHES, dtype=torch.uint8, device=memory.device)
    for number in range(_FIRST + _STEPS):
        other.fill_(number)
        with clock.forward(0):
            optimizer.step()
    passing = 0
    if memory.is_known:
        before = memory.begin()
        optimizer.step()
        passing = known_bytes(memory.peak - before)
    seconds = statistics.median(clock.forward_seconds[0][_FIRST:])
    return Update(max(0.0, seconds - any_step), passing)
