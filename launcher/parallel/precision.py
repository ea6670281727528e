"""Automatic mixed precision: autocasting to 16 bits, and loss scaling that agrees on all ranks."""

from __future__ import annotations

import enum
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

from launcher.parallel.context import ParallelContext
from launcher.shared.parallel_dims import parse_choice


class Precision(str, enum.Enum):
    """The type that torch.autocast computes matrix products in; parameters keep theirs."""

    BF16 = "bf16"
    FP16 = "fp16"  # its gradients vanish below 6e-8: use a `scaler`

    @property
    def dtype(self) -> torch.dtype:
        """The torch dtype."""
        return torch.bfloat16 if self is Precision.BF16 else torch.float16


def autocasting(
    precision: Precision | str | None, device: torch.device
) -> Callable[[], AbstractContextManager[object]]:
    """Return a factory of contexts for forward passes and losses.

    None: contexts that change nothing. Raises ParallelError for an unknown precision.
    """
    if precision is None:
        return nullcontext
    dtype = parse_choice(Precision, precision, "precision").dtype
    return lambda: torch.autocast(device.type, dtype)


def scaler(world: ParallelContext, **options: object) -> ShardedGradScaler:
    """Return a GradScaler with which all ranks skip the same steps.

    An inf in one stage counts for all stages. options: of torch.amp.GradScaler (init_scale,
    growth_factor, backoff_factor, growth_interval).
    """
    made = ShardedGradScaler(world.device.type, **options)
    made.scale(torch.zeros((), device=world.device))  # initialise it in stages without a loss, too
    return made
