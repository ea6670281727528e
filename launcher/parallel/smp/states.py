"""States that are divided over the stages of a replica: gather, save and load them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_map_only

from launcher.parallel.context import ParallelContext
from launcher.parallel.smp.smp_session import session

#: The key that marks a state of a single stage; the name is smp's.
PARTIAL = "_smp_is_partial"


def gathered(part: Mapping[Any, Any], world: ParallelContext) -> dict[Any, Any]:
    """Return the parts of all stages as one, on the CPU. All ranks of a replica call it."""
    mine = tree_map_only(torch.Tensor, lambda tensor: tensor.detach().cpu(), dict(part))
    parts: list[Any] = [None] * world.degrees.pipeline
    dist.all_gather_object(parts, mine, group=world.pp_group)
    return {name: value for each in parts for name, value in each.items()}


def merged(
    state: Mapping[str, Any], world: ParallelContext, tied: Mapping[str, str]
) -> dict[str, Any]:
    """Return a whole state from one that may be of a single stage.

    tied: the later names of tied parameters, each with the first one; a stage may lack some.
    """
    if PARTIAL not in state:
        return dict(state)
    found = gathered(state, world)
    del found[PARTIAL]
    values = {tied.get(name, name): value for name, value in found.items()}
    every = {**tied, **dict(zip(tied.values(), tied.values(), strict=True))}
    return found | {name: values[first] for name, first in every.items() if first in values}


def save(obj: object, f: str, partial: bool = True, v3: bool = False, **options: object) -> None:
    """Write one file per stage (`f_NUMBER`), or, if not partial, one file from the first stage.

    All ranks of one replica call it. v3: accepted; smp so names files of a sharded optimizer state.
    options: passed to torch.save.
    """
    if partial or session().world.pp_rank == 0:
        torch.save(obj, _file(f, partial), **options)


def load(f: str, map_location: object = "cpu", partial: bool = True, **options: object) -> Any:
    """Load what `save` has written. options: passed to torch.load."""
    return torch.load(_file(f, partial), map_location=map_location, **options)


def _file(name: str, partial: bool) -> str:
    return f"{name}_{session().world.pp_rank}" if partial else name
