"""Arguments of steps: those of a replica's first rank count, as in smp.

A script for smp may read samples on that rank alone, and pass placeholders on the others.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map_only

from launcher.parallel.context import ParallelContext
from launcher.parallel.smp.call_interception import CONSTANTS

#: Bytes of a tensor of which all are in its checksum.
_WHOLE = 1 << 16


class ArgumentSource:
    """Decides whether each rank's own arguments serve, or the first rank's.

    They serve until a step in which the ranks' arguments differ.
    """

    def __init__(self) -> None:
        self._differ = False

    def agreed(self, given: Mapping[str, Any], world: ParallelContext) -> dict[str, Any]:
        """Return the arguments of a step by name, the same on all ranks of a replica.

        Arguments with other values than tensors, numbers and texts (a model, a device) stay those
        of this rank. All ranks of a replica call it.
        """
        if world.degrees.pipeline == 1:
            return dict(given)
        data = {name: value for name, value in given.items() if _is_data(value)}
        self._differ = self._differ or _differ(data, world)
        return {**given, **_received(data, world)} if self._differ else dict(given)


def _is_data(value: object) -> bool:
    return all(isinstance(leaf, (torch.Tensor, *CONSTANTS)) for leaf in tree_leaves(value))


def _differ(data: Mapping[str, Any], world: ParallelContext) -> bool:
    """Return whether the ranks of a replica were given different data."""
    leaves, structure = tree_flatten(dict(data))
    mine = repr((str(structure), [_summary(leaf) for leaf in leaves]))
    number = int.from_bytes(hashlib.blake2b(mine.encode(), digest_size=7).digest(), "little")
    bounds = torch.tensor([number, -number], device=world.device)
    dist.all_reduce(bounds, op=dist.ReduceOp.MAX, group=world.pp_group)
    most, least = bounds.tolist()
    return bool(most != -least)


def _summary(leaf: object) -> object:
    if not isinstance(leaf, torch.Tensor):
        return leaf
    octets = leaf.detach().contiguous().reshape(-1).view(torch.uint8)
    if len(octets) <= _WHOLE:
        return str(leaf.dtype), tuple(leaf.shape), checksum(leaf)
    # The sum of all words, and where some are: a checksum of all takes 10 times as long.
    octets = octets if octets.storage_offset() % 8 == 0 else octets.clone()
    words = octets[: len(octets) // 8 * 8].view(torch.int64)
    some = words[:: len(words) * 8 // _WHOLE]
    return str(leaf.dtype), tuple(leaf.shape), words.sum().item(), checksum(some)


def checksum(tensor: torch.Tensor) -> int:
    """Return the CRC-32 of a tensor's elements."""
    octets = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return zlib.crc32(octets.numpy())


def _received(data: Mapping[str, Any], world: ParallelContext) -> dict[str, Any]:
    """Return the first rank's data, on the device where that rank has its own."""
    sent: list[Any] = [
        tree_map_only(torch.Tensor, lambda tensor: tensor.detach().cpu(), dict(data)),
        any(leaf.device.type != "cpu" for leaf in tree_leaves(data) if torch.is_tensor(leaf)),
    ]
    first = world.degrees.holder(0)
    dist.broadcast_object_list(sent, group=world.pp_group, group_src=first, device=world.device)
    if world.pp_rank == first:
        return dict(data)
    received, on_device = sent
    device = world.device if on_device else torch.device("cpu")
    found: dict[str, Any] = tree_map_only(torch.Tensor, lambda tensor: tensor.to(device), received)
    return found
