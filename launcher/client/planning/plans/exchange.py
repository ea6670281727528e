"""The seconds that ranks add to each other's steps, from the bytes that they exchange.

Replicas sum their gradients by an all-reduce. In a ring of n, each sends and receives 2 (n - 1) / n
of the bytes in 2 (n - 1) turns (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms",
2009); in a tree twice the bytes, or them once between two, in 2 log2 n turns (NCCL 2.4's double
binary trees). What takes less time is taken, as NCCL does. Ranks of a host do so over its links and
hosts over their network at the same time. Shards gather their parameters twice for each batch that
is accumulated, and sum their gradients in one pass (Rajbhandari et al., "ZeRO", 2020, section 7). A
stage of a pipeline sends the next one its output, and the one before the gradient of its own.

Buckets of gradients are sent while the backward pass goes on, but for the last one (Li et al.,
"PyTorch Distributed", 2020, section 3.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.client.catalogue import InstanceType, accelerator_kinds
from launcher.client.planning.plans.parallel_strategy import Strategy, strategy_for

if TYPE_CHECKING:
    from launcher.client.planning.workloads.workload import Workload

#: Bytes of a bucket, DistributedDataParallel's `bucket_cap_mb`.
_BUCKET = 25 * 2**20
_BITS_PER_BYTE = 8
#: Of a network that TCP on one core keeps full, at most, and the shares of it that are payload: TCP
#: has 1,448 bytes of an Ethernet frame of 1,538, and 8,949 of one of 9,039.
_SLOW_GBPS = 10.0
_SLOW_SHARES = {"low": 0.99, "mean": 0.94, "high": 0.8}


@dataclass(frozen=True, kw_only=True)
class ExchangeCase:
    """Assumptions about an exchange.

    network: the share of the network's speed that it reaches. nvlink, pcie: those of a link in a
    host. turn: seconds of a message between hosts. overlap: the share of the step without it in
    which it goes on: the backward pass takes two thirds of it.
    """

    network: float
    nvlink: float
    pcie: float
    turn: float
    overlap: float


#: Of the shortest, the expected and the longest step, by the part of a Measure that they take.
#: NCCL's tests have 30 of 50 GB/s for p4d over EFA, and 231 of 300 within one (2022,
#: https://github.com/NVIDIA/nccl/issues/527), and 370 of 450 for p5 (2025, issue 1442); a message
#: of p3dn took 80 us (2019, https://gist.github.com/jacobkahn/a92f4425abf831ac0799fabe9079263d),
#: one of p5 6. What GPUs reach that share a host's PCIe is assumed.
CASES = {
    "low": ExchangeCase(network=0.9, nvlink=0.85, pcie=0.8, turn=6e-6, overlap=2 / 3),
    "mean": ExchangeCase(network=0.7, nvlink=0.77, pcie=0.4, turn=2e-5, overlap=0.5),
    "high": ExchangeCase(network=0.5, nvlink=0.6, pcie=0.2, turn=8e-5, overlap=0.0),
}


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Bytes that are sent in a step. host: by a host to others. rank: by a rank to its host's."""

    host: float
    rank: float


def exchange_seconds(
    workload: Workload, instance: InstanceType, hosts: int, gpu_seconds: float, end: str
) -> float | None:
    """Return the seconds that ranks add to each other's steps; None if several hosts' are unknown.

    Measured ones of several hosts go before computed ones. gpu_seconds: of the step without them.
    end: "low", "mean" or "high", the part of each Measure that is taken.
    """
    if hosts > 1 and workload.communication_seconds_per_step is not None:
        given: float = getattr(workload.communication_seconds_per_step, end)
        return given
    sent = traffic(workload, instance, hosts)
    if sent is None or (hosts > 1 and not instance.network_gbps):
        return None if hosts > 1 else 0.0
    case = CASES[end]
    gbps = instance.network_gbps or math.inf
    share = case.network if gbps > _SLOW_GBPS else _SLOW_SHARES[end]
    per_second = gbps * 1e9 / _BITS_PER_BYTE * share
    link = _link_bytes(instance, case)

    def seconds(most: float) -> float:
        between = _between(min(most, sent.host), per_second, hosts, case.turn)
        return max(between, min(most, sent.rank) / link)

    return max(seconds(2 * _BUCKET), seconds(math.inf) - case.overlap * gpu_seconds)


def _between(sent: float, per_second: float, hosts: int, turn: float) -> float:
    """Return the seconds of an exchange between hosts: in a ring, or in a tree if that is less."""
    buckets = math.ceil(sent / (2 * _BUCKET))
    ring = sent / per_second + buckets * 2 * (hosts - 1) * turn
    more = hosts / (hosts - 1) if hosts > 2 else 1.0
    tree = more * sent / per_second + buckets * 2 * math.ceil(math.log2(hosts)) * turn
    return min(ring, tree)


def _link_bytes(instance: InstanceType, case: ExchangeCase) -> float:
    """Return the bytes a second between accelerators of a host; infinite if unknown."""
    kind = accelerator_kinds().get(instance.accelerator_name or "")
    if kind is None or kind.link is None or kind.link_gb_s is None:
        return math.inf
    share = case.nvlink if kind.link.startswith("NVLink") else case.pcie
    return kind.link_gb_s * 1e9 * share


def traffic(workload: Workload, instance: InstanceType, hosts: int) -> Traffic | None:
    """Return the bytes of a step; None if unknown: no figures of the model, or of its stages."""
    strategy, model = train_strategy(workload, instance, hosts), workload.model
    if strategy is None or model is None:
        return None
    stages, local = strategy.degrees.pipeline, instance.processes
    near = max(1, local // stages)  # replicas of a stage in a host
    far = math.ceil(strategy.degrees.data / near)  # hosts with the same stage
    size = _passed_bytes(strategy, workload) / stages
    outputs = 2.0 * (model.stage_output or 0) * workload.batch_size * stages if stages > 1 else 0.0
    is_cut = hosts > 1 and local % stages > 0  # stages of a replica are on several hosts
    if is_cut and model.stage_output is None:
        return None
    return Traffic(
        host=min(local, stages) * size * (far - 1) / far + is_cut * outputs,
        rank=size * (near - 1) / near + (outputs if local > 1 else 0.0),
    )


def _passed_bytes(strategy: Strategy, workload: Workload) -> float:
    """Return the bytes of a whole model that go through each pass of a ring, times the passes."""
    model, savings = workload.model, strategy.savings
    assert model is not None
    if not savings.sharded:
        return 2.0 * model.footprint.gradients
    gathered = model.footprint.parameters / (2 if savings.precision else 1)
    return 2.0 * gathered * strategy.degrees.accumulation + model.footprint.gradients


def train_strategy(workload: Workload, instance: InstanceType, hosts: int) -> Strategy | None:
    """Return the parallel strategy on these train hosts; None without figures of the model."""
    known, key = workload.strategies, (instance, hosts)
    if key not in known and workload.model is not None:
        known[key] = strategy_for(
            workload.model,
            instance,
            ranks=hosts * instance.processes,
            batch_size=workload.batch_size,
            batch_bytes=workload.bytes_per_batch,
        )
    return known.get(key)
