"""Messages between ranks as Python objects, which smp's scripts send outside their steps."""

from __future__ import annotations

import enum
from typing import Any

import torch.distributed as dist

from launcher.parallel.smp.rank_placement import get_tp_process_group
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
