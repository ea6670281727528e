"""Check that all ranks of a replica have created the same model.

Otherwise a forgotten seed would go unnoticed: each stage would be one of another model.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from launcher.errors import ParallelError
from launcher.parallel.context import ParallelContext
from launcher.parallel.smp.step_arguments import checksum


def check_agreement(model: nn.Module, world: ParallelContext) -> int:
    """Return the seed of the first stage. Raises ParallelError when another stage differs."""
    named = itertools.chain(model.named_parameters(), model.named_buffers())
    mine = (torch.initial_seed(), {name: checksum(tensor) for name, tensor in named})
    gathered: list[Any] = [None] * world.degrees.pipeline
    dist.all_gather_object(gathered, mine, group=world.pp_group)
    seed, first_weights = gathered[0]
    for stage, (_, weights) in enumerate(gathered):
        if different := [name for name in weights if weights[name] != first_weights.get(name)]:
            raise ParallelError(
                f"the ranks of stages 0 and {stage} have created different models: {different[0]} "
                "differs; use the same seed on all ranks of a replica before creating the model: "
                "torch.manual_seed(seed + smp.dp_rank())"
            )
    return int(seed)
