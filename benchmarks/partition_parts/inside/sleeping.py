"""A chain of modules that sleep, some on the way there and some on the way back."""

from __future__ import annotations

import random
import time
from typing import Any

import torch
from torch import nn

from partition_parts.inside.subject import Batch, Subject

#: How unevenly they sleep: of the logarithms of their seconds, the standard deviation.
_SPREAD = 0.8


def sleepers(count: int, seconds: float, seed: int) -> Subject:
    """So many modules, which sleep so many seconds in all for one microbatch."""
    draw = random.Random(seed)
    shares = [draw.lognormvariate(0, _SPREAD) for _ in range(count)]
    each = [seconds * share / sum(shares) for share in shares]
    slept = [(long, 0.0) if draw.random() < 0.5 else (0.0, long) for long in each]
    return Subject(
        make=lambda: nn.Sequential(*(Sleeper(*each) for each in slept)),
        batch=_batch,
        samples=1,
        loss=lambda output, target: (output - target).square().mean(),
    )


def _batch(samples: int) -> Batch:
    return torch.ones(samples, 8), torch.zeros(samples, 8)


class Sleeper(nn.Module):
    """Sleeps, and gives what it was given, scaled. forward, backward: seconds."""

    def __init__(self, forward: float, backward: float) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self._seconds = forward, backward

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        slept: torch.Tensor = _Sleep.apply(x * self.scale, *self._seconds)
        return slept


class _Sleep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, forward: float, backward: float) -> torch.Tensor:
        ctx.backward_seconds = backward
        time.sleep(forward)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        time.sleep(ctx.backward_seconds)
        return gradient, None, None
