"""The formula of the seconds that each resource needs in a step, with its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from launcher.client.catalogue import InstanceType
from launcher.client.planning.candidates import Candidate
from launcher.client.planning.step_model import (
    SECONDS_PER_GB,
    Bottleneck,
    GroupShape,
    family,
    local_vcpus,
    spare_vcpus,
    workers_per_vcpu,
)


def formulas(candidate: Candidate) -> Mapping[Bottleneck, str]:
    """Return the formula of each resource that a cluster has; its value is seconds."""
    demand = _Demand.of(candidate)
    train, data, share = candidate.shape.train, candidate.shape.data, candidate.step.offloaded
    found = {
        Bottleneck.ACCELERATOR: _accelerator(candidate),
        Bottleneck.TRAIN_CPU: " + ".join(_train_cpu(candidate, demand)),
        Bottleneck.TRAIN_MEMORY: _memory(candidate),
    }
    if data is None:
        return found
    prepare = demand.prepared_by(data.instance, data.count, data.instance.vcpu or 0)
    send = f"{demand.gigabytes:.4g} GB x {SECONDS_PER_GB} s / {_vcpus(data)} vCPUs"
    return found | {
        Bottleneck.DATA_CPU: f"{share:.4g} x ({prepare} + {send})",
        Bottleneck.TRAIN_NETWORK: _network(train, demand, share),
        Bottleneck.DATA_NETWORK: _network(data, demand, share),
    }


@dataclass(frozen=True, kw_only=True)
class _Demand:
    """The demand of one step of all ranks."""

    candidate: Candidate
    cpu: float
    wait: float
    gigabytes: float

    @classmethod
    def of(cls, candidate: Candidate) -> _Demand:
        load, samples = candidate.workload, candidate.samples_per_step
        return cls(
            candidate=candidate,
            cpu=samples * load.cpu_seconds_per_sample.mean,
            wait=samples * load.wait_seconds_per_sample.mean,
            gigabytes=candidate.shape.ranks * load.bytes_per_batch / 1e9,
        )

    def prepared_by(self, instance: InstanceType, count: int, vcpus: int) -> str:
        """Return the formula of the seconds in which so many vCPUs of hosts prepare it all."""
        load = self.candidate.workload
        speed, efficiency = load.cpu_speed.get(family(instance), 1.0), load.parallel_efficiency
        computing = self.cpu / (speed * efficiency)
        speeds = "".join(f" / {each:.4g}" for each in (speed, efficiency) if each != 1)
        each = workers_per_vcpu(load, instance, vcpus)
        if computing * each >= computing + self.wait:
            return f"{self.cpu:.4g} s{speeds} / {count * vcpus} vCPUs"
        return f"({self.cpu:.4g} s{speeds} + {self.wait:.4g} s) / {count * vcpus * each} workers"


def _accelerator(candidate: Candidate) -> str:
    load, train = candidate.workload, candidate.shape.train
    name = train.instance.accelerator_name or ""
    text = f"{load.gpu_seconds_per_step[name].mean:.4g} s of {name}"
    if train.count > 1:
        text += f" + {load.communication_seconds_per_step.mean:.4g} s between hosts"
    return text


def _train_cpu(candidate: Candidate, demand: _Demand) -> Iterator[str]:
    load, train, share = candidate.workload, candidate.shape.train, candidate.step.offloaded
    vcpus = local_vcpus(load, train)
    if share < 1 and vcpus:
        own = demand.prepared_by(train.instance, train.count, vcpus)
        yield f"{1 - share:.4g} x {own}" if share else own
    if share:
        receive = f"{demand.gigabytes:.4g} GB x {SECONDS_PER_GB} s"
        yield f"{share:.4g} x {receive} / {spare_vcpus(load, train):.4g} vCPUs"


def _memory(candidate: Candidate) -> str:
    step = candidate.step
    batches = step.prefetch.batches
    of_worker = step.seconds_by_resource[Bottleneck.TRAIN_MEMORY] * batches
    return f"{of_worker:.4g} s of a worker for a batch / {batches} batches ahead"


def _network(group: GroupShape, demand: _Demand, share: float) -> str:
    gbps = group.instance.card_gbps
    if not gbps:
        return "its network is unknown, so it is not counted"
    gigabits = f"{demand.gigabytes:.4g} GB x 8 bits"
    return f"{share:.4g} x {gigabits} / {group.count} hosts / {gbps:.4g} Gbit/s"


def _vcpus(group: GroupShape) -> int:
    return group.count * (group.instance.vcpu or 0)
