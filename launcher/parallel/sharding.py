"""Replicas that share parameters, gradients and the optimizer's state: FSDP2 of PyTorch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from launcher.errors import ParallelError
from launcher.parallel.degrees import named
from launcher.parallel.precision import Precision
from launcher.parallel.world import World


def shard(model: nn.Module, world: World, *, precision: Precision | str | None = None) -> nn.Module:
    """The model on this rank's device, of which each rank keeps a share: it is changed in place.

    Blocks, the entries of its lists of modules, are put together one by one when they are used;
    the rest is put together as a whole. Parameters become DTensors under their own names.
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
    for block in _blocks(model):
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    return model


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
