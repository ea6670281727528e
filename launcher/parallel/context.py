"""The parallel context of a process: its rank, device and process groups."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.rendezvous import rendezvous

from launcher.errors import ParallelError
from launcher.runtime import gloo_threads
from launcher.shared import ParallelDims, ParallelPart, RankPlacement, parse_choice

#: The variable in which torchrun gives its ranks the restart count (torch.distributed.elastic).
_RESTARTS = "TORCHELASTIC_RESTART_COUNT"
_SMDDP = "smddp"
_Value = TypeVar("_Value")
_TIMEOUT = timedelta(minutes=30)


@dataclass(frozen=True, kw_only=True)
class ParallelContext:
    """The parallel context of this process.

    mesh: ("dp", "pp"), with a process group for each.
    job: the job's settings for parallel training.
    store: a key-value store of all ranks.
    shard_mesh: the ranks of this rank's stage, as FSDP2 takes them: ("replicate", "shard"), or
        ("shard",) if each shard exists once. None without shards.
    """

    degrees: ParallelDims
    rank: int
    local_rank: int
    device: torch.device
    mesh: DeviceMesh
    job: ParallelPart
    store: dist.Store
    shard_mesh: DeviceMesh | None = None

    @property
    def pp_rank(self) -> int:
        """The pipeline rank: the stage, unless the rank holds several."""
        return self.degrees.pp_rank(self.rank)

    @property
    def dp_rank(self) -> int:
        """The replica: a data loader's rank, out of `degrees.data`."""
        return self.degrees.dp_rank(self.rank)

    @property
    def pp_group(self) -> dist.ProcessGroup:
        """The process group of all stages of this replica."""
        return self.mesh.get_group("pp")

    @property
    def dp_group(self) -> dist.ProcessGroup:
        """The process group of the ranks that hold the same stage in all replicas."""
        return self.mesh.get_group("dp")

    def leave(self) -> None:
        """Wait for all ranks and destroy the process groups.

        If a process exits right after its last collective, peers that have not finished it crash.
        """
        # NCCL otherwise guesses the GPU, and warns of it.
        dist.barrier(device_ids=[self.device.index] if self.device.type == "cuda" else None)
        dist.destroy_process_group()
        gloo_threads.wait_for_gloo_threads()


def join(
    *,
    pipeline: int | None = None,
    placement: RankPlacement | str | None = None,
    global_batch: int | None = None,
    accumulation: int | None = None,
    microbatches: int | None = None,
    virtual_stages: int | None = None,
    shard_degree: int | None = None,
    backend: str | None = None,
    timeout: timedelta = _TIMEOUT,
) -> ParallelContext:
    """Join the other ranks as started by torchrun or mpirun, or run as the only one.

    Most arguments are those of ParallelDims. Their defaults are the job's settings, or outside a
    job the defaults of ParallelDims.

    backend: the backend of torch.distributed; by default NCCL with CUDA, else gloo. "smddp" is
        AWS's, for data-parallel training in AWS's images, when AWS's toolkit starts the ranks.
    timeout: of each collective.

    Raises ParallelError.
    """
    job = ParallelPart.from_environment(os.environ)
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    degrees = ParallelDims(
        world=int(os.environ.get("WORLD_SIZE", 1)),
        pipeline=_default_to(pipeline, job.partitions),
        placement=parse_choice(RankPlacement, _default_to(placement, job.placement), "placement"),
        global_batch=global_batch,
        accumulation=_default_to(accumulation, job.accumulation),
        microbatches=_default_to(microbatches, job.microbatches),
        virtual_stages=_default_to(virtual_stages, job.virtual_stages),
        shard_degree=_default_to(shard_degree, job.shard_degree),
    )
    device = _device(local_rank)
    backend = backend or ("nccl" if device.type == "cuda" else "gloo")
    if backend == _SMDDP:
        _register_smddp(degrees)
    store = _init_process_group(backend, timeout)
    return ParallelContext(
        degrees=degrees,
        rank=dist.get_rank(),
        local_rank=local_rank,
        device=device,
        mesh=_mesh(device, degrees, backend),
        job=job,
        store=store,
        shard_mesh=shard_mesh(device, degrees),
    )


def shard_mesh(device: torch.device, degrees: ParallelDims) -> DeviceMesh | None:
    """Return the mesh of the ranks that share this rank's stage. All ranks must call it."""
    if degrees.shard_degree == 1:
        return None
    mesh = DeviceMesh(device.type, degrees.shard_grid, mesh_dim_names=("replicate", "shard", "pp"))
    return mesh["shard"] if degrees.replicate_degree == 1 else mesh["replicate", "shard"]


def _mesh(device: torch.device, degrees: ParallelDims, backend: str) -> DeviceMesh:
    if backend == _SMDDP:  # its only process group is that of all ranks
        assert dist.group.WORLD is not None
        return DeviceMesh.from_group(dist.group.WORLD, device.type, mesh_dim_names=("dp",))
    return DeviceMesh(device.type, degrees.grid, mesh_dim_names=("dp", "pp"))


def _register_smddp(degrees: ParallelDims) -> None:
    """Import AWS's module, which registers its backend with torch.distributed."""
    if degrees.pipeline > 1 or degrees.shard_degree > 1:
        raise ParallelError(
            f"backend 'smddp' has no groups of ranks, which {degrees.pipeline} pipeline stages and "
            f"a shard_degree of {degrees.shard_degree} need: use 'nccl'"
        )
    try:
        importlib.import_module("smdistributed.dataparallel.torch.torch_smddp")
    except ImportError as error:
        raise ParallelError(
            f"backend 'smddp' is not in this image ({error}): use one of AWS's training images, "
            "or 'nccl'"
        ) from error


def _default_to(value: _Value | None, default: _Value) -> _Value:
    return default if value is None else value


def _device(local_rank: int) -> torch.device:
    """Return this rank's GPU if the host has any, else the CPU."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    count = torch.cuda.device_count()
    if local_rank >= count:
        raise ParallelError(
            f"local rank {local_rank} has no GPU: this host has {count} GPUs, so start at most "
            f"{count} processes on it"
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def _init_process_group(backend: str, timeout: timedelta) -> dist.Store:
    """Create the process group of all ranks; return their store.

    Each restart of the ranks prefixes its keys in the agents' store. Otherwise restarted ranks find
    the addresses of the previous ranks there: 8 of 12 restarts failed or hung (torch 2.13, gloo).
    """
    if dist.is_initialized():
        raise ParallelError(
            "torch.distributed is already initialized in this process: call init() instead of "
            "init_process_group()"
        )
    if "RANK" not in os.environ:
        own = dist.HashStore()
        dist.init_process_group(backend, store=own, rank=0, world_size=1)
        return own
    store, rank, world = next(rendezvous("env://", timeout=timeout))
    store = dist.PrefixStore(f"launcher/start-{os.environ.get(_RESTARTS, '0')}", store)
    dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=timeout)
    return store
