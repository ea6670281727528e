"""Which rank this process is, by smp's names; mp is pp, and rdp dp, without tensor parallelism."""

from __future__ import annotations

import os

import torch.distributed as dist

from launcher.parallel.smp.session import session


def rank() -> int:
    return session().world.rank


def size() -> int:
    return session().world.degrees.world


def local_rank() -> int:
    return session().world.local_rank


def local_size() -> int:
    """Ranks of this host."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", 1))


def pp_rank() -> int:
    """The stage that this process has."""
    return session().world.pp_rank


def pp_size() -> int:
    return session().world.degrees.pipeline


def dp_rank() -> int:
    """The replica that this process has a stage of: which share of the samples it reads."""
    return session().world.dp_rank


def dp_size() -> int:
    return session().world.degrees.data


def tp_rank() -> int:
    return 0


def tp_size() -> int:
    return 1


mp_rank, mp_size = pp_rank, pp_size
rdp_rank, rdp_size = dp_rank, dp_size


def get_mp_group() -> list[int]:
    """The ranks of this replica, by stage."""
    world = session().world
    return list(world.degrees.pp_group(world.rank))


def get_dp_group() -> list[int]:
    """The ranks that have this stage, by replica."""
    world = session().world
    return list(world.degrees.dp_group(world.rank))


def get_world_process_group() -> dist.ProcessGroup:
    session()
    return dist.group.WORLD


def get_pp_process_group() -> dist.ProcessGroup:
    return session().world.pp_group


def get_dp_process_group() -> dist.ProcessGroup:
    return session().world.dp_group


get_mp_process_group = get_pp_process_group
get_rdp_process_group = get_dp_process_group
