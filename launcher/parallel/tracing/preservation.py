"""Contexts that leave a model, and this process's random numbers, as they were."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import nn
from torch.utils._mode_utils import no_dispatch

from launcher.parallel.tracing.python_state import PythonState
from launcher.parallel.tracing.writes import Observation


@contextlib.contextmanager
def preserved_state(
    model: nn.Module, on_write: Callable[[int], None] = lambda _: None
) -> Iterator[Observation]:
    """Restore, at exit, whatever a model's calls change: tensors, attributes, closures of hooks.

    on_write: called with each storage of the model's state that an operation writes to.
    """
    state = PythonState([model])
    try:
        with preserved_tensors(model, state.tensors, on_write) as observation:
            yield observation
    finally:
        state.restore()


@contextlib.contextmanager
def preserved_tensors(
    model: nn.Module,
    tensors: Sequence[torch.Tensor],
    on_write: Callable[[int], None] = lambda _: None,
) -> Iterator[Observation]:
    """Restore, at exit, the values of a model's buffers and of other tensors of its state."""
    buffers = [(each, each.detach().clone()) for each in model.buffers()]
    observation = Observation(tensors, on_write)
    try:
        with observation:
            yield observation
    finally:
        observation.restore()
        for buffer, was in buffers:  # fused kernels write to statistics unseen
            buffer.data.copy_(was)


def random_state() -> tuple[object, ...]:
    """Return the states of Python's, numpy's and torch's generators."""
    name, words, *rest = np.random.get_state()
    with no_dispatch():  # a real tensor, not a fake one
        devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        states = [state.numpy().tobytes() for state in (torch.get_rng_state(), *devices)]
    return random.getstate(), name, np.asarray(words).tobytes(), *rest, *states
