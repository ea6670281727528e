"""States that are divided over the stages of a replica."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_map_only

from launcher.parallel.context import ParallelContext

#: The key that marks a state of a single stage; the name is smp's.
PARTIAL = "_smp_is_partial"


def gathered(part: Mapping[Any, Any], world: ParallelContext) -> dict[Any, Any]:
    """Return the parts of all stages as one, on the CPU. All ranks of a replica call it."""
    mine = tree_map_only(torch.Tensor, lambda tensor: tensor.detach().cpu(), dict(part))
    told: list[Any] = [None] * world.degrees.pipeline
    dist.all_gather_object(told, mine, group=world.pp_group)
    return {name: value for each in told for name, value in each.items()}


def merged(state: Mapping[str, Any], world: ParallelContext) -> dict[str, Any]:
    """Return a whole state from one that may be of a single stage."""
    found = gathered(state, world) if PARTIAL in state else dict(state)
    found.pop(PARTIAL, None)
    return found
