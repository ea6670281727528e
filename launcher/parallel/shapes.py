"""Stages for microbatches of other shapes than the example: another batch size or length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
import torch.distributed as dist
from torch import nn
from torch.utils._pytree import tree_leaves

from launcher.parallel.context import ParallelContext
from launcher.parallel.graph import preserved_random_state
from launcher.parallel.stages import Stage, Value, on_meta

Shapes = tuple[tuple[torch.Size, torch.dtype], ...]


def shapes(arguments: Iterable[object]) -> Shapes:
    """Return the shapes and dtypes that identify microbatches of this kind."""
    return tuple((each.shape, each.dtype) for each in arguments if isinstance(each, torch.Tensor))


def reshape_stages(
    own: Mapping[int, Stage], arguments: Sequence[torch.Tensor], world: ParallelContext
) -> dict[int, Stage]:
    """Return this rank's stages, by number, for such arguments of one microbatch.

    Each runs once, on zeros; its buffers and the random states are restored. All ranks of a replica
    call it.
    """
    found: dict[int, Stage] = {}
    outputs: tuple[Value, ...] = ()
    for number in range(world.degrees.stages):
        inputs, holder = outputs, world.degrees.holder(number)
        if number in own:
            given = [_zeros(value, world) for value in inputs] if number else arguments
            outputs = _run(own[number], given)
            found[number] = replace(own[number], inputs=inputs, outputs=outputs)
        broadcast = [outputs]
        dist.broadcast_object_list(
            broadcast, group=world.pp_group, group_src=holder, device=world.device
        )
        outputs = broadcast[0]
    return found


def _zeros(value: Value, world: ParallelContext) -> torch.Tensor:
    zeros = torch.zeros_like(value.like, device=world.device)
    return zeros.requires_grad_(value.like.requires_grad)


def _run(stage: Stage, arguments: Sequence[torch.Tensor]) -> tuple[Value, ...]:
    with torch.enable_grad(), preserved_random_state(), _kept_buffers(stage.module):
        leaves = tree_leaves(stage.module(*arguments))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return tuple(
        replace(value, like=on_meta(tensor))
        for value, tensor in zip(stage.outputs, tensors, strict=True)
    )


@contextmanager
def _kept_buffers(module: nn.Module) -> Iterator[None]:
    before = [(buffer, buffer.clone()) for buffer in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, was in before:
                buffer.copy_(was)
