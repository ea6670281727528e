"""Sharded data parallelism with PyTorch's FSDP2: parameters, gradients and optimizer state."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from launcher.errors import ParallelError
from launcher.parallel.context import ParallelContext
from launcher.parallel.precision import Precision
from launcher.parallel.running.elsewhere import replace
from launcher.shared import parse_choice


def shard(
    model: nn.Module, world: ParallelContext, *, precision: Precision | str | None = None
) -> nn.Module:
    """Move the model to this rank's device and shard it over the replicas, in place.

    With a shard_degree, each set of that many replicas shares one copy of the model.

    Blocks, the entries of its ModuleLists, are gathered one by one when they run; the rest is
    gathered as a whole. Parameters become DTensors under their own names. Run backward passes
    within `gradients.accumulating`, which handles parameters that no replica used. Raises
    ParallelError with a pipeline, whose stages already divide the model.

    precision: the precision of the forward and backward pass; gradients are reduced in 32 bits.
    """
    if world.degrees.pipeline > 1:
        raise ParallelError(
            f"a model in {world.degrees.pipeline} pipeline stages cannot be sharded as a whole: "
            "use pipeline=1, or init(shard_degree=...), with which a Pipeline shards each stage"
        )
    check_hooks(model)
    mesh, policy = world.shard_mesh or world.mesh["dp"], _policy(precision)
    model.to(world.device)
    units = [*blocks(model), model]
    before = dict(model.named_parameters())
    with attributes_kept(model):
        for unit in units:
            fully_shard(unit, mesh=mesh, mp_policy=policy)
    for name, parameter in before.items():
        replace(
            parameter,
            f"{name} was replaced by this rank's share of it in shard(), so it is never trained: "
            "create optimizers from model.parameters() afterwards",
        )
    # Otherwise replicas that use different parameters would add up gradients of different ones.
    # Older releases of torch have no such setting: there, all replicas must use the same ones.
    if hasattr(model, "set_reduce_scatter_unused_params"):
        model.set_reduce_scatter_unused_params(True)
    model.share_memory = _refuse_sharing
    model.parameter_uses = Uses(model, units, world.dp_group)
    return model


def _refuse_sharing() -> NoReturn:
    raise ParallelError("share_memory() of a sharded model crashes torch: leave it out")


def check_hooks(model: nn.Module) -> None:
    """Raise ParallelError for hooks of gradients, which FSDP2's parameters would not have."""
    for name, parameter in model.named_parameters():
        if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            raise ParallelError(
                f"{name} has a hook for its gradient, which would not be called: FSDP2 replaces "
                "parameters by its own; change the gradient after the backward pass, or train "
                "without shards"
            )


@contextmanager
def attributes_kept(model: nn.Module) -> Iterator[None]:
    """Give the parameters that replace others within the context the attributes of those.

    Some models tell optimizers by them what must not decay.
    """
    before = {name: dict(vars(each)) for name, each in model.named_parameters()}
    yield
    for name, parameter in model.named_parameters():
        vars(parameter).update(before[name])


class Uses:
    """Records which parameters of a sharded model got gradients during an optimizer step.

    FSDP2 gives parameters that no replica used a gradient of zeros, so optimizers would apply
    weight decay to them. units: the modules that are gathered one by one.
    """

    def __init__(
        self, model: nn.Module, units: Iterable[nn.Module], group: dist.ProcessGroup
    ) -> None:
        # On the CPU: what NCCL exchanges is known to Python only when the GPU's queue is empty.
        self._group = dist.new_group(
            dist.get_process_group_ranks(group), backend="gloo", use_local_synchronization=True
        )
        self._prefixes = {module: name for name, module in model.named_modules()}
        self._watched: set[int] = set()
        self._used: set[str] = set()
        for unit in units:
            unit.register_forward_pre_hook(self._watch)

    def _watch(self, unit: nn.Module, arguments: object) -> None:
        """Add hooks to a unit's parameters.

        Once the unit is gathered they are plain tensors, the same ones in each step.
        """
        for name, parameter in unit.named_parameters(prefix=self._prefixes[unit]):
            if isinstance(parameter, DTensor) or id(parameter) in self._watched:
                continue
            self._watched.add(id(parameter))
            if parameter.requires_grad:
                hook = functools.partial(self._record_use, name)
                parameter.register_post_accumulate_grad_hook(hook)

    def _record_use(self, name: str, parameter: torch.Tensor) -> None:
        self._used.add(name)

    def drop_unused_gradients(self, model: nn.Module) -> None:
        """Remove the gradients of parameters that no replica used. All ranks must call it."""
        named = dict(model.named_parameters())
        for name, parameter in named.items():
            if parameter.requires_grad and not isinstance(parameter, DTensor):
                raise ParallelError(
                    f"{name} was added after shard(), and replicas would not exchange its "
                    "gradient: add it before"
                )
        used = torch.tensor([name in self._used for name in named]).int()
        self._used.clear()
        dist.all_reduce(used, group=self._group)
        for parameter, count in zip(named.values(), used.tolist(), strict=True):
            if not count:
                parameter.grad = None


def _policy(precision: Precision | str | None) -> MixedPrecisionPolicy:
    if precision is None:
        return MixedPrecisionPolicy()
    dtype = parse_choice(Precision, precision, "precision").dtype
    return MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)


def blocks(model: nn.Module) -> Iterator[nn.Module]:
    """Yield the outermost ModuleList entries that share no parameter with any other module."""
    holders = Counter(
        id(parameter)
        for module in model.modules()
        for parameter in module.parameters(recurse=False)
    )
    shared = {number for number, count in holders.items() if count > 1}
    for module in _entries(model):
        own = list(module.parameters())
        if own and not any(id(each) in shared for each in own):
            yield module


def _entries(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        if isinstance(child, nn.ModuleList):
            yield from dict.fromkeys(child)
        else:
            yield from _entries(child)
