"""Check that all ranks of a replica have created the same model and read the same batch.

Otherwise a forgotten seed would go unnoticed: the labels in the last stage would belong to other
samples than those in the first.
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


def check_agreement(model: nn.Module, batch: Iterable[torch.Tensor], world: ParallelContext) -> int:
    """Return the seed of the first stage. Raises ParallelError when another stage differs."""
    named = itertools.chain(model.named_parameters(), model.named_buffers())
    weights = {name: _checksum(tensor) for name, tensor in named}
    mine = (torch.initial_seed(), weights, [_checksum(tensor) for tensor in batch])
    gathered: list[Any] = [None] * world.degrees.pipeline
    dist.all_gather_object(gathered, mine, group=world.pp_group)
    seed, first_weights, first_batch = gathered[0]
    for stage, (_, weights, samples) in enumerate(gathered):
        if different := [name for name in weights if weights[name] != first_weights.get(name)]:
            raise ParallelError(
                f"the ranks of stages 0 and {stage} have created different models: {different[0]} "
                "differs; use the same seed on all ranks of a replica before creating the model: "
                "torch.manual_seed(seed + smp.dp_rank())"
            )
        if samples != first_batch:
            raise ParallelError(
                f"the ranks of stages 0 and {stage} have read different batches, but all ranks of "
                "a replica must read the same samples: use the same seed on them, and split the "
                "data by smp.dp_rank() and smp.dp_size()"
            )
    return int(seed)


def _checksum(tensor: torch.Tensor) -> int:
    octets = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return zlib.crc32(octets.numpy())
