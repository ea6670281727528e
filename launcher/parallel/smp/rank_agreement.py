"""Check that all ranks of a replica have created the same model and read the same batch.

Otherwise a forgotten seed would go unnoticed: the first stage would process other samples than the
last has labels for.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from launcher.errors import ParallelError
from launcher.parallel.context import ParallelContext


def agree(model: nn.Module, batch: Iterable[torch.Tensor], world: ParallelContext) -> int:
    """Return the seed of the first stage. Raises ParallelError when another stage differs."""
    named = itertools.chain(model.named_parameters(), model.named_buffers())
    weights = {name: _checksum(tensor) for name, tensor in named}
    mine = (torch.initial_seed(), weights, [_checksum(tensor) for tensor in batch])
    told: list[Any] = [None] * world.degrees.pipeline
    dist.all_gather_object(told, mine, group=world.pp_group)
    seed, first_weights, first_batch = told[0]
    for stage, (_, weights, samples) in enumerate(told):
        if different := [name for name in weights if weights[name] != first_weights.get(name)]:
            raise ParallelError(
                f"the ranks of stages 0 and {stage} have made different models: {different[0]} is "
                "another one; seed the ranks of a replica alike before the model is made, as with "
                "torch.manual_seed(seed + smp.dp_rank())"
            )
        if samples != first_batch:
            raise ParallelError(
                f"the ranks of stages 0 and {stage} have read different batches: all ranks of a "
                "replica read the same samples; seed them alike, and share out the data by "
                "smp.dp_rank() and smp.dp_size()"
            )
    return int(seed)


def _checksum(tensor: torch.Tensor) -> int:
    octets = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return zlib.crc32(octets.numpy())
