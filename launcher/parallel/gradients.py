"""Gradients across replicas: averaging, compression, accumulation, clipping; and their hooks."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

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
from torch.nn.utils import clip_grad, clip_grads_with_norm_, get_total_norm

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


class ReplicatedModel(DistributedDataParallel):  # type: ignore[misc] # torch types it as Any
    """A model whose replicas exchange gradients, and that raises where torch's would not.

    So replicas cannot diverge in silence. options: of DistributedDataParallel.
    """

    def __init__(self, module: nn.Module, **options: object) -> None:
        super().__init__(module, **options)
        self._watch()

    def __getstate__(self) -> dict[str, Any]:
        return {name: each for name, each in super().__getstate__().items() if name != "_collector"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._watch()

    def _watch(self) -> None:
        """Note what the replicas exchange gradients of, and watch these gradients."""
        self._ignored = {
            id(each)
            for name, each in self.module.named_parameters()
            if name in self.parameters_to_ignore
        }
        watched = [each for each in _trained(self.module) if id(each) not in self._ignored]
        self._exchanged = {id(each): each.dtype for each in watched}
        #: A parameter, and where its gradients are collected, which a conversion makes anew.
        self._collector = [(each, _collector(each)) for each in watched[:1]]
        #: The number of forward passes whose gradients are to be exchanged, and the latest of them
        #: that has given each parameter a gradient.
        self._passes = 0
        self._latest: dict[int, int] = {}
        if dist.get_world_size(self.process_group) > 1:
            for each in watched:
                each.register_post_accumulate_grad_hook(self._on_gradient)

    def forward(self, *args: object, **kwargs: object) -> Any:
        """Call the model. Raises ParallelError for parameters that replicas do not exchange."""
        if torch.is_grad_enabled() and self.require_backward_grad_sync:
            self._passes += 1
            self._check_parameters()
        return super().forward(*args, **kwargs)

    def _check_parameters(self) -> None:
        for first, collector in self._collector:
            if first.requires_grad and _collector(first) is not collector:
                raise ParallelError(
                    "the model was converted or moved after replicate() (half, to, ...), and "
                    "replicas would not exchange its gradients: do it before, or call replicate() "
                    "again"
                )
        for each in _trained(self.module):
            if self._exchanged.get(id(each)) is not each.dtype and id(each) not in self._ignored:
                names = {id(value): name for name, value in self.module.named_parameters()}
                raise ParallelError(
                    f"{names[id(each)]} was added, unfrozen or converted after replicate(), and "
                    "replicas would not exchange its gradient: do it before, or call replicate() "
                    "again"
                )

    def _on_gradient(self, parameter: torch.Tensor) -> None:
        """Raise ParallelError for a gradient that comes from no forward pass of this module."""
        if not self.require_backward_grad_sync or self.static_graph:
            return
        if self._latest.get(id(parameter), 0) == self._passes:
            raise ParallelError(
                "a backward pass computes gradients that replicas would not exchange: call what "
                "replicate() has returned, not the model itself, and run one backward pass for "
                "each call (add up the losses), or earlier ones in accumulating(is_last=False)"
            )
        self._latest[id(parameter)] = self._passes


def _collector(parameter: torch.Tensor) -> object:
    """Return the function that collects a parameter's gradients, on which DDP has its hooks."""
    with torch.enable_grad():
        return parameter.expand_as(parameter).grad_fn.next_functions[0][0]


def _trained(module: nn.Module) -> Iterator[nn.Parameter]:
    return (each for each in module.parameters() if each.requires_grad)


def replicate(
    model: nn.Module, world: ParallelContext, *, compression: str | None = None, **options: object
) -> ReplicatedModel:
    """Move the model to this rank's device and average its gradients over all replicas.

    Call what is returned, not the model itself.

    compression: a key of COMPRESSIONS; None sends gradients as they are.
    options: passed to DistributedDataParallel.

    Raises ParallelError.
    """
    hook = _compression(compression, dist.get_backend(world.dp_group)) if compression else None
    replicated = ReplicatedModel(
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


class _Divided(Protocol):
    """The pipelines that have only a part of a model's parameters on this rank."""

    def parameters(self) -> list[nn.Parameter]: ...


#: For torch's function, which gets gradients alone: those that there are, of several stages.
_DIVIDED: weakref.WeakSet[_Divided] = weakref.WeakSet()
_total_norm = clip_grad._get_total_norm


def refuse_partial_norms(pipeline: _Divided) -> None:
    """Let torch's clip_grad_norm_ raise ParallelError for the gradients of a pipeline's stages.

    It would clip by the norm of this rank's stages, whichever way a loop has got the parameters.
    """
    _DIVIDED.add(pipeline)
    clip_grad._get_total_norm = _total_norm_of_whole


def _total_norm_of_whole(gradients: Sequence[torch.Tensor], *args: Any, **kwargs: Any) -> Any:
    given = {id(each) for each in gradients}
    if any(id(each.grad) in given for pipeline in _DIVIDED for each in pipeline.parameters()):
        raise ParallelError(
            "clip_grad_norm_ would clip the gradients of a pipeline by the norm of this rank's "
            "stages alone: use pipeline.clip(max_norm), or clip_grad_norm_(max_norm) of smp's model"
        )
    return _total_norm(gradients, *args, **kwargs)


@contextmanager
def called_once(
    named: Iterable[tuple[str, nn.Parameter]], unsuited: Callable[[nn.Parameter], str]
) -> Iterator[None]:
    """Call hooks after the context with the gradient of a batch, not with each microbatch's.

    unsuited: returns why a parameter's gradient is not yet that of the batch then, or "".

    Raises ParallelError for the hooks of such a parameter, and for hooks after the accumulation,
    which would train it amid the batch.
    """
    hooked = [each for name, each in named if _is_hooked(name, each, unsuited)]
    held = [(each, each.grad, dict(each._backward_hooks)) for each in hooked]
    for each in hooked:
        each._backward_hooks.clear()
        each.grad = None
    try:
        yield
    finally:
        for each, _, hooks in held:
            each._backward_hooks.update(hooks)
    with torch.no_grad():
        for each, before, hooks in held:
            each.grad = added(before, _changed(each.grad, hooks.values()))


def _is_hooked(name: str, parameter: nn.Parameter, unsuited: Callable[[nn.Parameter], str]) -> bool:
    why = ""
    if parameter._post_accumulate_grad_hooks:
        why = "would be called for each microbatch (register_post_accumulate_grad_hook)"
    elif parameter._backward_hooks:
        why = unsuited(parameter)
    if why:
        raise ParallelError(
            f"{name} has a hook for its gradient, which {why}: remove it, and change the gradient "
            "or step its optimizer after pipeline.step()"
        )
    return bool(parameter._backward_hooks)


def _changed(
    gradient: torch.Tensor | None, hooks: Iterable[Callable[[torch.Tensor], torch.Tensor | None]]
) -> torch.Tensor | None:
    for hook in hooks if gradient is not None else ():
        result = hook(gradient)
        gradient = gradient if result is None else result
    return gradient


def added(before: torch.Tensor | None, own: torch.Tensor | None) -> torch.Tensor | None:
    """Return an earlier gradient, in which another one is added up."""
    if before is None or own is None:
        return own if before is None else before
    return before.add_(own)
