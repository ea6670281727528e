"""Gradients across replicas: averaging, compression, accumulation and clipping."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.distributed.algorithms.ddp_comm_hooks.quantization_hooks import (
    quantization_pertensor_hook,
)
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from launcher.errors import ParallelError
from launcher.parallel.context import ParallelContext
from launcher.parallel.sharding import Uses

__all__ = ["replicate", "accumulating", "average", "fill", "clip"]


@dataclass(frozen=True, kw_only=True)
class _Compression:
    """One of torch's communication hooks. backends: the backends it supports; None for all.

    state: creates the state that the hook is registered with, from a process group.
    """

    hook: Callable[..., Any]
    state: Callable[[dist.ProcessGroup], Any] = lambda group: group
    backends: tuple[str, ...] | None = None


_ON_DEVICES = ("nccl", "xccl")
#: Compressed forms of gradients. fp16 halves the bytes, but an element beyond 65,504 becomes
#: infinite before it is divided by the replicas: keep a GradScaler. int8 sends one byte per
#: element to every rank; its hook cannot read gloo's result (torch 2.13). power_sgd sends two thin
#: matrices per gradient, after 1,000 steps that send it whole (Vogels et al., arXiv 1905.13727).
COMPRESSIONS = {
    "fp16": _Compression(hook=default_hooks.fp16_compress_hook),
    "bf16": _Compression(hook=default_hooks.bf16_compress_hook, backends=_ON_DEVICES),
    "int8": _Compression(hook=quantization_pertensor_hook, backends=_ON_DEVICES),
    "power_sgd": _Compression(hook=powerSGD_hook, state=lambda group: PowerSGDState(group)),
}


def replicate(
    model: nn.Module, world: ParallelContext, *, compression: str | None = None, **options: object
) -> DistributedDataParallel:
    """Move the model to this rank's device and average its gradients over all replicas.

    compression: a key of COMPRESSIONS; None sends gradients as they are.
    options: passed to DistributedDataParallel.

    Raises ParallelError.
    """
    hook = _compression(compression, dist.get_backend(world.dp_group)) if compression else None
    replicated = DistributedDataParallel(
        model.to(world.device),
        device_ids=[world.device] if world.device.type == "cuda" else None,
        process_group=world.dp_group,
        **options,
    )
    if hook is not None:
        replicated.register_comm_hook(hook.state(world.dp_group), hook.hook)
    return replicated


def _compression(name: str, backend: str) -> _Compression:
    if name not in COMPRESSIONS:
        known = ", ".join(sorted(COMPRESSIONS))
        raise ParallelError(f"gradients cannot be compressed as {name!r}: use one of {known}")
    found = COMPRESSIONS[name]
    if found.backends is not None and backend not in found.backends:
        raise ParallelError(
            f"compression {name!r} needs {' or '.join(found.backends)}, but this job communicates "
            f"over {backend}: use 'fp16'"
        )
    return found


def accumulating(model: nn.Module, *, is_last: bool) -> AbstractContextManager[None]:
    """Return a context for the forward and backward pass of one of several accumulated batches.

    Gradients are exchanged only in the last one. Divide each loss by the number of batches.
    """
    if isinstance(model, FSDPModule):
        return _accumulating_shares(model, is_last=is_last)
    if is_last or not isinstance(model, DistributedDataParallel):
        return contextlib.nullcontext()
    no_sync: AbstractContextManager[None] = model.no_sync()
    return no_sync


@contextlib.contextmanager
def _accumulating_shares(model: FSDPModule, *, is_last: bool) -> Iterator[None]:
    model.set_requires_gradient_sync(is_last)
    yield
    uses = getattr(model, "parameter_uses", None)
    if is_last and isinstance(uses, Uses):
        uses.drop_unused_gradients(model)


def average(parameters: Iterable[nn.Parameter], world: ParallelContext) -> None:
    """Average the gradients over all replicas, in one message."""
    own = [each for each in parameters if each.requires_grad]
    if world.degrees.data == 1 or not own:
        return
    fill(own, world.dp_group)
    gradients = [each.grad for each in own if each.grad is not None]
    if not gradients:
        return
    whole = torch.cat([gradient.reshape(-1) for gradient in gradients])
    dist.all_reduce(whole, group=world.dp_group)
    whole /= world.degrees.data
    for gradient, mean in zip(gradients, whole.split([g.numel() for g in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))


def fill(parameters: Sequence[nn.Parameter], group: dist.ProcessGroup) -> None:
    """Give a gradient of zeros to parameters that have one elsewhere in the group.

    Parameters that no rank used keep none, so that an optimizer skips them.
    """
    device = parameters[0].device
    used = torch.tensor([each.grad is not None for each in parameters], device=device).int()
    dist.all_reduce(used, group=group)
    for parameter, count in zip(parameters, used.tolist(), strict=True):
        if count and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)


def clip(
    parameters: Iterable[nn.Parameter],
    max_norm: float,
    world: ParallelContext,
    *,
    counted: Iterable[nn.Parameter] | None = None,
) -> torch.Tensor:
    """Scale the gradients down so that the norm of the whole model is at most `max_norm`.

    Like torch.nn.utils.clip_grad_norm_, but over all stages; each rank passes the parameters of its
    own stage. Returns the norm before clipping, a scalar that is equal on all ranks of a replica.

    counted: the parameters that make up the norm; the others are copies.
    """
    own = list(parameters)
    gradients = [each.grad for each in (own if counted is None else counted)]
    norm = get_total_norm([each for each in gradients if each is not None])
    if isinstance(norm, DTensor):  # the parameters are sharded
        norm = norm.full_tensor()
    if world.degrees.pipeline > 1:
        # One dtype on all stages, since the norm of no gradients is a float32 zero.
        square = norm.to(world.device, torch.float64).square()
        dist.all_reduce(square, group=world.pp_group)
        norm = square.sqrt()
    clip_grads_with_norm_([each for each in own if each.grad is not None], max_norm, norm)
    return norm
