"""The time that all ranks need for something."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
import torch.distributed as dist


def seconds(work: Callable[[], object], times: int = 1) -> tuple[float, float]:
    """Of one of so many calls in a row, which all ranks begin together and wait for.

    The second number is the processor time of all ranks.
    """
    _meet()
    start, used = time.perf_counter(), time.process_time()
    for _ in range(times):
        work()
    _meet()
    passed, used = time.perf_counter() - start, time.process_time() - used
    return passed / times, sum(everywhere(used)) / times


def everywhere(value: float) -> list[float]:
    """A number of each rank."""
    values = [value] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def _meet() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    dist.barrier()
