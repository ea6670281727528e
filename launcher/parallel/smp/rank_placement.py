"""Ranks and groups of this process under smp's names.

Without tensor parallelism mp is the same as pp, and rdp the same as dp.
"""

from __future__ import annotations

import os

import torch.distributed as dist

from launcher.parallel.smp.smp_session import session


def rank() -> int:
    """Return the global rank."""
    return session().world.rank


def size() -> int:
    """Return the number of ranks."""
    return session().world.degrees.world


def local_rank() -> int:
    """Return the rank on this host."""
    return session().world.local_rank


def local_size() -> int:
    """Return the number of ranks on this host."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", 1))


def pp_rank() -> int:
    """Return the stage of this process."""
    return session().world.pp_rank


def pp_size() -> int:
    """Return the number of partitions."""
    return session().world.degrees.pipeline


def dp_rank() -> int:
    """Return the replica of this process, which selects its share of the samples."""
    return session().world.dp_rank


def dp_size() -> int:
    """Return the number of replicas."""
    return session().world.degrees.data


def tp_rank() -> int:
    """Return 0: there is no tensor parallelism."""
    return 0


def tp_size() -> int:
    """Return 1: there is no tensor parallelism."""
    return 1


mp_rank, mp_size = pp_rank, pp_size
rdp_rank, rdp_size = dp_rank, dp_size


def get_mp_group() -> list[int]:
    """Return the ranks of this replica, by stage."""
    world = session().world
    return list(world.degrees.pp_group(world.rank))


def get_dp_group() -> list[int]:
    """Return the ranks that hold this stage, by replica."""
    world = session().world
    return list(world.degrees.dp_group(world.rank))


def get_world_process_group() -> dist.ProcessGroup:
    """Return the process group of all ranks."""
    session()
    return dist.group.WORLD


def get_pp_process_group() -> dist.ProcessGroup:
    """Return the process group of this replica."""
    return session().world.pp_group


def get_dp_process_group() -> dist.ProcessGroup:
    """Return the process group of the ranks that hold this stage."""
    return session().world.dp_group


def get_tp_group() -> list[int]:
    """Return this rank: there is no tensor parallelism."""
    return [session().world.rank]


def get_tp_process_group() -> dist.ProcessGroup:
    """Return the process group of this rank alone."""
    found = session().alone
    if not found:
        found.append(dist.new_group(get_tp_group(), use_local_synchronization=True))
    return found[0]


get_pp_group, get_rdp_group = get_mp_group, get_dp_group
get_mp_process_group = get_pp_process_group
get_rdp_process_group = get_dp_process_group
