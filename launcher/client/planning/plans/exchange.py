"""The seconds that several train hosts add to a step, from the bytes that they exchange.

Replicas sum their gradients by an all-reduce. In a ring of n hosts, each of them sends and receives
2 (n - 1) / n of the bytes, however many ranks it has (Patarasuk and Yuan, "Bandwidth optimal
all-reduce algorithms", 2009); in shards, three passes of (n - 1) / n instead of two (Rajbhandari
et al., "ZeRO", 2020, section 7). Buckets of gradients are sent while the backward pass goes on, but
for the last bucket (Li et al., "PyTorch Distributed", 2020, section 3.2). What stages of a pipeline
send to each other is not counted.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.client.catalogue import InstanceType
from launcher.client.planning.plans.parallel_strategy import Strategy, strategy_for

if TYPE_CHECKING:
    from launcher.client.planning.workloads.workload import Workload

#: Bytes of a bucket, DistributedDataParallel's `bucket_cap_mb`.
_BUCKET = 25 * 2**20
_BITS_PER_BYTE = 8


@dataclass(frozen=True, kw_only=True)
class ExchangeCase:
    """Assumptions about an exchange.

    network: the share of the network's speed that it reaches. overlap: the share of the step
    without it in which it goes on: the backward pass takes two thirds of it.
    """

    network: float
    overlap: float


#: Of the shortest, the expected and the longest step, by the part of a Measure that they take.
CASES = {
    "low": ExchangeCase(network=0.9, overlap=2 / 3),
    "mean": ExchangeCase(network=0.7, overlap=0.5),
    "high": ExchangeCase(network=0.5, overlap=0.0),
}


def exchange_seconds(
    workload: Workload, instance: InstanceType, hosts: int, gpu_seconds: float, end: str
) -> float | None:
    """Return the seconds that several train hosts add to a step; None if that is unknown.

    Those that the workload has go before computed ones. gpu_seconds: of the step without them.
    end: "low", "mean" or "high", the part of each Measure that is taken.
    """
    if hosts == 1:
        return 0.0
    if workload.communication_seconds_per_step is not None:
        given: float = getattr(workload.communication_seconds_per_step, end)
        return given
    sent = sent_bytes(workload, instance, hosts)
    if sent is None or not instance.network_gbps:
        return None
    case = CASES[end]
    per_second = instance.network_gbps * 1e9 / _BITS_PER_BYTE * case.network
    last = min(sent, 2 * _BUCKET) / per_second
    return max(last, sent / per_second - case.overlap * gpu_seconds)


def sent_bytes(workload: Workload, instance: InstanceType, hosts: int) -> float | None:
    """Return the bytes that each of several train hosts sends in a step; None if unknown."""
    strategy = train_strategy(workload, instance, hosts)
    if strategy is None or workload.model is None:
        return None
    gradients = workload.model.footprint.gradients / strategy.degrees.pipeline
    passes = 3 if strategy.savings.sharded else 2
    return passes * (hosts - 1) / hosts * gradients


def train_strategy(workload: Workload, instance: InstanceType, hosts: int) -> Strategy | None:
    """Return the parallel strategy on these train hosts; None without figures of the model."""
    return _strategy(_Same(workload), instance, hosts)


class _Same:
    """A workload as a key: the very same one, since its mappings have no hash."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.workload is self.workload

    def __hash__(self) -> int:
        return id(self.workload)


@functools.lru_cache(maxsize=256)
def _strategy(key: _Same, instance: InstanceType, hosts: int) -> Strategy | None:
    workload = key.workload
    if workload.model is None:
        return None
    ranks = hosts * instance.processes
    return strategy_for(workload.model, instance, ranks=ranks, batch_size=workload.batch_size)
