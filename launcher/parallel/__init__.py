"""Data-parallel and pipeline training over torch.distributed.

    from launcher import parallel

    parallel.init(pipeline=2, global_batch=64, microbatches=4)      # in each rank, under torchrun
    share = LoaderOptions(rank=parallel.dp_rank(), world_size=parallel.dp_size())
    loader = DataLoader(..., options=share)

`dims` holds the arithmetic, `context` the processes. The functions here describe the calling
process once it has called `init`. Their names are those of SageMaker's model-parallel library v1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from launcher.errors import ParallelError
from launcher.parallel.context import ParallelContext, join
from launcher.shared import ParallelDims, RankPlacement
from launcher.shared.doors import open_door

if TYPE_CHECKING:
    from launcher.parallel import fingerprint, sharding
    from launcher.parallel.context import ParallelContext, shard_mesh
    from launcher.parallel.cuts import Pins, boundaries, is_in, largest_uncut
    from launcher.parallel.cutting.graph import trace
    from launcher.parallel.cutting.shapes import Reshaping, cut_by_shape
    from launcher.parallel.cutting.start_orders import resolve_starts
    from launcher.parallel.gradients import COMPRESSIONS, accumulating, clip, replicate
    from launcher.parallel.pipeline import Pipeline
    from launcher.parallel.precision import Precision, autocasting, scaler
    from launcher.parallel.randomness import Randomness, seed_from
    from launcher.parallel.recomputation import recompute
    from launcher.parallel.running.sections import Section, make_schedule
    from launcher.parallel.running.ties import Ties, tied_names
    from launcher.parallel.sharding import shard
    from launcher.parallel.stages import Stage, cut
    from launcher.parallel.weights import WeightedLoss, zero_loss

__all__ = [
    "ParallelDims",
    "RankPlacement",
    "ParallelContext",
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

__getattr__ = open_door(__name__)

#: The context of this process, which can join once.
_joined: list[ParallelContext] = []


def init(**degrees: Any) -> ParallelContext:
    """Join the other ranks; see `context.join` for the arguments. Raises ParallelError."""
    if _joined:
        raise ParallelError("launcher.parallel.init() was called before in this process")
    _joined.append(join(**degrees))
    return world()


def leave() -> None:
    """Wait for all ranks and destroy the process groups; the last call of a script."""
    world().leave()
    _joined.clear()


def world() -> ParallelContext:
    """Return the parallel context of this process. Raises ParallelError before `init`."""
    if not _joined:
        raise ParallelError("launcher.parallel.init() was not called in this process")
    return _joined[0]


def rank() -> int:
    """Return the global rank of this process."""
    return world().rank


def size() -> int:
    """Return the number of ranks."""
    return world().degrees.world


def local_rank() -> int:
    """Return the rank of this process on its host."""
    return world().local_rank


def dp_rank() -> int:
    """Return the number of the replica that this process belongs to."""
    return world().dp_rank


def dp_size() -> int:
    """Return the number of replicas."""
    return world().degrees.data


def pp_rank() -> int:
    """Return the pipeline rank of this process: its stage, unless it holds several."""
    return world().pp_rank


def pp_size() -> int:
    """Return the number of pipeline ranks per replica."""
    return world().degrees.pipeline


def device() -> torch.device:
    """Return the device that this process computes on."""
    return world().device


def barrier() -> None:
    """Wait for all ranks."""
    torch.distributed.barrier()
