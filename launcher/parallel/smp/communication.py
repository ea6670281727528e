"""Ranks and groups of this process under smp's names, and messages between them.

Without tensor parallelism mp is the same as pp, and rdp the same as dp. Messages are objects of
Python, which smp's scripts send outside their steps.
"""

from __future__ import annotations

import enum
import os
from typing import Any

import torch.distributed as dist

from launcher.parallel.smp.smp_session import session


class CommGroup(enum.Enum):
    """Ranks that communicate: all, those of a replica (also PP_GROUP), or those of a stage.

    TP_GROUP is a rank alone, since there is no tensor parallelism.
    """

    WORLD = "world"
    MP_GROUP = "mp"
    PP_GROUP = "mp"
    DP_GROUP = "dp"
    RDP_GROUP = "dp"
    TP_GROUP = "tp"


class RankType(enum.Enum):
    """The group within which a rank is numbered."""

    WORLD_RANK = "world"
    MP_RANK = "mp"
    PP_RANK = "mp"
    DP_RANK = "dp"
    RDP_RANK = "dp"
    TP_RANK = "tp"


WORLD = CommGroup.WORLD
MP_GROUP = PP_GROUP = CommGroup.MP_GROUP
DP_GROUP = RDP_GROUP = CommGroup.DP_GROUP
TP_GROUP = CommGroup.TP_GROUP


def _group(among: CommGroup | RankType) -> dist.ProcessGroup:
    world = session().world
    if among.value == "tp":
        return get_tp_process_group()
    return {"world": dist.group.WORLD, "mp": world.pp_group, "dp": world.dp_group}[among.value]


def barrier(group: CommGroup = WORLD) -> None:
    """Wait for all ranks of a group."""
    dist.barrier(group=_group(group))


def mp_barrier() -> None:
    """Wait for all ranks of the replica."""
    barrier(MP_GROUP)


def dp_barrier() -> None:
    """Wait for all ranks that hold the same stage."""
    barrier(DP_GROUP)


def tp_barrier() -> None:
    """Return at once: there is no tensor parallelism."""
    barrier(TP_GROUP)


pp_barrier, rdp_barrier = mp_barrier, dp_barrier


def allgather(obj: object, group: CommGroup) -> list[Any]:
    """Return the objects of all ranks of a group, by rank; all of them call it."""
    found: list[Any] = [None] * dist.get_world_size(_group(group))
    dist.all_gather_object(found, obj, group=_group(group))
    return found


def send(obj: object, dest_rank: int, rank_type: RankType) -> None:
    """Send an object to a rank, which calls `recv_from`."""
    dist.send_object_list(
        [obj], group=_group(rank_type), group_dst=dest_rank, device=session().world.device
    )


def recv_from(src_rank: int, rank_type: RankType) -> Any:
    """Receive an object that a rank sends to this one or broadcasts."""
    found = [None]
    dist.recv_object_list(
        found, group=_group(rank_type), group_src=src_rank, device=session().world.device
    )
    return found[0]


def broadcast(obj: object, group: CommGroup) -> None:
    """Send an object to all other ranks of a group, which call `recv_from`."""
    members = _group(group)
    for each in range(dist.get_world_size(members)):
        if each != dist.get_rank(members):
            dist.send_object_list(
                [obj], group=members, group_dst=each, device=session().world.device
            )


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
