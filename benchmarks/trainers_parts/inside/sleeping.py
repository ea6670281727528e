"""Work that takes time but no processor, so that many ranks fit on few of them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass
class Work:
    """What the sleepers of a rank are to do, and have done.

    seconds: of a forward pass; a backward pass takes twice as long. live: microbatches whose
    forward pass is done and whose backward pass has not begun; peak: the most of them.
    """

    seconds: float = 0.0
    live: int = 0
    peak: int = 0

    def add(self, count: int) -> None:
        self.live += count
        self.peak = max(self.peak, self.live)


class Sleeper(nn.Module):
    """Sleeps in its passes, and gives what it was given, scaled."""

    def __init__(self, work: Work) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self._work = work

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        slept: torch.Tensor = _Sleep.apply(x * self.scale, self._work)
        return slept


class _Sleep(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, work: Work) -> torch.Tensor:
        ctx.work = work
        time.sleep(work.seconds)
        work.add(1)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        ctx.work.add(-1)
        time.sleep(2 * ctx.work.seconds)
        return gradient, None
