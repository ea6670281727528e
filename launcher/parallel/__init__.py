"""Data parallel and pipeline training over torch.distributed.

    from launcher import parallel

    parallel.init(pipeline=2, global_batch=64, microbatches=4)      # in each rank, under torchrun
    loader = DataLoader(..., rank=parallel.dp_rank(), world_size=parallel.dp_size())

`degrees` is the arithmetic, `world` the processes. The functions here speak of the process that
they are called in, once it has called `init`; their names are those of SageMaker's model-parallel
library v1.
"""

from __future__ import annotations

from typing import Any

import torch

from launcher.errors import ParallelError
from launcher.parallel.degrees import Degrees, Placement
from launcher.parallel.world import World, join

__all__ = [
    "Degrees",
    "Placement",
    "World",
    "barrier",
    "device",
    "dp_rank",
    "dp_size",
    "init",
    "leave",
    "local_rank",
    "pp_rank",
    "pp_size",
    "rank",
    "size",
    "world",
]

#: Of this process: it can join once.
_joined: list[World] = []


def init(**degrees: Any) -> World:
    """Meet the other ranks; see `world.join` for the arguments. Raises ParallelError."""
    if _joined:
        raise ParallelError("launcher.parallel.init() was called before in this process")
    _joined.append(join(**degrees))
    return world()


def leave() -> None:
    """Wait for all ranks and end the process groups: the last call of a script."""
    world().leave()
    _joined.clear()


def world() -> World:
    """This process among all that train."""
    if not _joined:
        raise ParallelError("launcher.parallel.init() was not called in this process")
    return _joined[0]


def rank() -> int:
    return world().rank


def size() -> int:
    return world().degrees.world


def local_rank() -> int:
    return world().local_rank


def dp_rank() -> int:
    """The replica that this process has a stage of."""
    return world().dp_rank


def dp_size() -> int:
    return world().degrees.data


def pp_rank() -> int:
    """The stage that this process has."""
    return world().pp_rank


def pp_size() -> int:
    return world().degrees.pipeline


def device() -> torch.device:
    """Where this process computes."""
    return world().device


def barrier() -> None:
    """Wait for all ranks."""
    torch.distributed.barrier()
