"""Replicas that share parameters, gradients and the optimizer's state: FSDP2 of PyTorch."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from launcher.errors import ParallelError
from launcher.parallel.degrees import named
from launcher.parallel.precision import Precision
from launcher.parallel.world import World


def shard(model: nn.Module, world: World, *, precision: Precision | str | None = None) -> nn.Module:
    """The model on this rank's device, of which each rank keeps a share: it is changed in place.

    Blocks, the entries of its lists of modules, are put together one by one when they are used;
    the rest is put together as a whole. Parameters become DTensors under their own names. Backward
    passes are to be in `gradients.accumulating`, which sees to parameters that nobody has used.
    precision: of the forward and backward pass; gradients are summed in 32 bits.
    Raises ParallelError with a pipeline, whose stages are shares already.
    """
    if world.degrees.pipeline > 1:
        raise ParallelError(
            f"a model in {world.degrees.pipeline} stages cannot be sharded as well: use "
            "pipeline=1, or no sharding"
        )
    mesh, policy = world.mesh["dp"], _policy(precision)
    model.to(world.device)
    units = [*_blocks(model), model]
    for unit in units:
        fully_shard(unit, mesh=mesh, mp_policy=policy)
    # Else replicas that use different parameters would add up gradients of different ones.
    cast(FSDPModule, model).set_reduce_scatter_unused_params(True)
    model.parameter_uses = Uses(model, units, world.dp_group)
    return model


class Uses:
    """Which parameters of a sharded model the backward passes of an optimizer step have come to.

    FSDP2 gives those that nobody has used a gradient of zeros, by which optimizers let them decay.
    units: the modules that are put together one by one.
    """

    def __init__(
        self, model: nn.Module, units: Iterable[nn.Module], group: dist.ProcessGroup
    ) -> None:
        self._group = group
        self._prefixes = {module: name for name, module in model.named_modules()}
        self._watched: set[int] = set()
        self._used: set[str] = set()
        for unit in units:
            unit.register_forward_pre_hook(self._watch)

    def _watch(self, unit: nn.Module, arguments: Any) -> None:
        """Once a unit is put together, its parameters are plain ones, the same in each step."""
        for name, parameter in unit.named_parameters(prefix=self._prefixes[unit]):
            if isinstance(parameter, DTensor) or id(parameter) in self._watched:
                continue
            self._watched.add(id(parameter))
            if parameter.requires_grad:
                note = functools.partial(self._note, name)
                parameter.register_post_accumulate_grad_hook(note)

    def _note(self, name: str, parameter: torch.Tensor) -> None:
        self._used.add(name)

    def settle(self, model: nn.Module) -> None:
        """Take the gradients from those that no replica has used. All must call it."""
        named = dict(model.named_parameters())
        device = next(iter(named.values())).device
        used = torch.tensor([name in self._used for name in named], device=device).int()
        self._used.clear()
        dist.all_reduce(used, group=self._group)
        for parameter, count in zip(named.values(), used.tolist(), strict=True):
            if not count:
                parameter.grad = None


def _policy(precision: Precision | str | None) -> MixedPrecisionPolicy:
    if precision is None:
        return MixedPrecisionPolicy()
    dtype = named(Precision, precision, "precision").dtype
    return MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)


def _blocks(model: nn.Module) -> Iterator[nn.Module]:
    """The outermost entries of lists, without those that share a parameter with anything else."""
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
