"""Measurement of the link between stages: round trips of small and large tensors."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from datetime import timedelta

import torch
import torch.distributed as dist

from launcher.runtime import gloo_threads
from launcher.shared import Link

_SMALL, _LARGE = 64, 2**22  # bytes
_RUNS = 9
_TIMEOUT = timedelta(seconds=60)


def measure_link(group: dist.ProcessGroup, device: torch.device) -> Link:
    """Measure the link between the first two ranks of a group.

    All ranks of the group call it and get the same answer.
    """
    seconds = [0.0, 0.0]
    if dist.get_rank(group) < 2:
        seconds = [_seconds(size, group, device) for size in (_SMALL, _LARGE)]
    found = torch.tensor(seconds, device=device)
    dist.broadcast(found, group=group, group_src=0)
    small, large = found.tolist()
    transfer = max(large - small, 1e-9)
    return Link(latency=small, bandwidth=(_LARGE - _SMALL) / transfer, source="measured")


def _seconds(size: int, group: dist.ProcessGroup, device: torch.device) -> float:
    """Return the seconds of one direction: half a round trip."""
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


def measure_local_link() -> Link:
    """Measure the link between two processes of this machine, over gloo."""
    context = multiprocessing.get_context("spawn")
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=_TIMEOUT)
    other = context.Process(target=_measure_as_other, args=(store.port,), daemon=True)
    other.start()
    try:
        return _measure_in_process(store, 0)
    finally:
        other.join()


def _measure_as_other(port: int) -> None:
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=_TIMEOUT)
    _measure_in_process(store, 1)


def _measure_in_process(store: dist.Store, rank: int) -> Link:
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=_TIMEOUT)
    try:
        return measure_link(dist.group.WORLD, torch.device("cpu"))
    finally:
        dist.destroy_process_group()
        gloo_threads.wait_for_gloo_threads()
