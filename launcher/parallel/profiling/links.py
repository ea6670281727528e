"""The link between stages, measured: how long small and large tensors go there and back."""

from __future__ import annotations

import statistics
import time

import torch
import torch.distributed as dist

from launcher.partitions.costs import Link

_SMALL, _LARGE = 64, 2**22  # bytes
_RUNS = 9


def measured(group: dist.ProcessGroup, device: torch.device) -> Link:
    """Between the first two ranks of a group, which both call it; both get the same answer."""
    small, large = (_seconds(size, group, device) for size in (_SMALL, _LARGE))
    found = torch.tensor([small, large], dtype=torch.float64, device=device)
    dist.broadcast(found, group=group, group_src=0)
    small, large = found.tolist()
    moving = max(large - small, 1e-9)
    return Link(latency=small, bandwidth=(_LARGE - _SMALL) / moving, source="measured")


def _seconds(size: int, group: dist.ProcessGroup, device: torch.device) -> float:
    """One way: half of there and back."""
    payload = torch.zeros(size, dtype=torch.uint8, device=device)
    is_first = dist.get_rank(group) == 0
    found = []
    for _ in range(_RUNS + 1):
        began = time.perf_counter()
        for is_turn in (is_first, not is_first):
            if is_turn:
                dist.send(payload, group=group, group_dst=int(is_first))
            else:
                dist.recv(payload, group=group, group_src=int(is_first))
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        found.append((time.perf_counter() - began) / 2)
    return statistics.median(found[1:])
