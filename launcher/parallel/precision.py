"""Automatic mixed precision: autocasting to 16 bits, and loss scaling that agrees on all ranks."""

from __future__ import annotations

import enum
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler, OptState
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

from launcher.errors import ParallelError
from launcher.parallel.context import ParallelContext
from launcher.shared import parse_choice


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


class _AgreeingScaler(ShardedGradScaler):  # type: ignore[misc] # torch types it as Any
    """A GradScaler with which all ranks skip the same steps of fused optimizers, too.

    For those, torch's looks at the gradients of one rank, or fails if they are unscaled before: it
    then has a vector of one element, of which fused kernels expect a number.
    """

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        """Unscale the gradients; all ranks call it."""
        super().unscale_(optimizer)
        if self._enabled:
            found = self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
            found |= {device: each.reshape(()) for device, each in found.items()}

    def step(self, optimizer: torch.optim.Optimizer, *args: object, **kwargs: object) -> Any:
        """Unscale the gradients, unless that is done, and call the optimizer if all are finite."""
        if self._enabled and self._per_optimizer_states[id(optimizer)]["stage"] is OptState.READY:
            self.unscale_(optimizer)
        return super().step(optimizer, *args, **kwargs)


def scaler(world: ParallelContext, **options: object) -> ShardedGradScaler:
    """Return a GradScaler with which all ranks skip the same steps.

    An inf in one stage counts for all stages. options: of torch.amp.GradScaler (init_scale,
    growth_factor, backoff_factor, growth_interval).
    """
    made = _AgreeingScaler(world.device.type, **options)
    made.scale(torch.zeros((), device=world.device))  # initialise it in stages without a loss, too
    return made


def check_scaler(given: GradScaler | None, world: ParallelContext) -> None:
    """Raise ParallelError for a GradScaler with which stages would skip different steps."""
    is_agreeing = given is None or not given.is_enabled() or isinstance(given, ShardedGradScaler)
    if world.degrees.pipeline > 1 and not is_agreeing:
        raise ParallelError(
            "a step was given torch's own GradScaler, which looks at the gradients of one stage, "
            "so that stages would skip different steps: use precision.scaler(world)"
        )
