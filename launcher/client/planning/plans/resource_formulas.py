"""The formula of the seconds that each resource needs in a step, with its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from launcher.client.planning.plans.cluster_candidates import Candidate
from launcher.client.planning.plans.step_model import (
    SECONDS_PER_GB,
    Bottleneck,
    GroupShape,
    data_workers,
    family,
    local_vcpus,
    local_workers,
    spare_vcpus,
)


def formulas(candidate: Candidate) -> Mapping[Bottleneck, str]:
    """Return the formula of each resource that a cluster has; its value is seconds."""
    demand = _StepDemand.of(candidate)
    train, data, share = candidate.shape.train, candidate.shape.data, candidate.step.offloaded
    found = {
        Bottleneck.ACCELERATOR: _accelerator(candidate),
        Bottleneck.TRAIN_CPU: " + ".join(_train_cpu(candidate, demand)),
        Bottleneck.TRAIN_MEMORY: _memory(candidate),
    }
    if data is None:
        return found
    workers = data_workers(candidate.workload, data.instance)
    prepare = demand.prepared_by(data, data.instance.vcpu or 0, workers)
    send = f"{demand.gigabytes:.4g} GB x {SECONDS_PER_GB} s / {_vcpus(data)} vCPUs"
    return found | {
        Bottleneck.DATA_CPU: f"{share:.4g} x ({prepare} + {send})",
        Bottleneck.TRAIN_NETWORK: _network(train, demand, share),
        Bottleneck.DATA_NETWORK: _network(data, demand, share),
    }


@dataclass(frozen=True, kw_only=True)
class _StepDemand:
    """The demand of one step of all ranks."""

    candidate: Candidate
    cpu: float
    wait: float
    gigabytes: float

    @classmethod
    def of(cls, candidate: Candidate) -> _StepDemand:
        load, samples = candidate.workload, candidate.samples_per_step
        return cls(
            candidate=candidate,
            cpu=samples * load.cpu_seconds_per_sample.mean,
            wait=samples * load.wait_seconds_per_sample.mean,
            gigabytes=candidate.shape.ranks * load.bytes_per_batch / 1e9,
        )

    def prepared_by(self, group: GroupShape, vcpus: int, workers: int) -> str:
        """Return the formula of the seconds in which a group prepares it all.

        vcpus, workers: of each host.
        """
        load, instance = self.candidate.workload, group.instance
        speed, efficiency = load.cpu_speed.get(family(instance), 1.0), load.parallel_efficiency
        computing = self.cpu / (speed * efficiency)
        speeds = "".join(f" / {each:.4g}" for each in (speed, efficiency) if each != 1)
        if vcpus <= workers and computing * workers >= (computing + self.wait) * vcpus:
            return f"{self.cpu:.4g} s{speeds} / {group.count * vcpus} vCPUs"
        wait = f" + {self.wait:.4g} s" if self.wait else ""
        return f"({self.cpu:.4g} s{speeds}{wait}) / {group.count * workers} workers"


def _accelerator(candidate: Candidate) -> str:
    load, train = candidate.workload, candidate.shape.train
    name = train.instance.accelerator_name or ""
    text = f"{load.gpu_seconds_per_step[name].mean:.4g} s of {name}"
    if train.count > 1:
        text += f" + {load.communication_seconds_per_step.mean:.4g} s between hosts"
    return text


def _train_cpu(candidate: Candidate, demand: _StepDemand) -> Iterator[str]:
    load, train, share = candidate.workload, candidate.shape.train, candidate.step.offloaded
    workers = local_workers(load, train)
    if share < 1 and workers:
        own = demand.prepared_by(train, local_vcpus(load, train), workers)
        yield f"{1 - share:.4g} x {own}" if share else own
    if share:
        receive = f"{demand.gigabytes:.4g} GB x {SECONDS_PER_GB} s"
        yield f"{share:.4g} x {receive} / {spare_vcpus(load, train):.4g} vCPUs"


def _memory(candidate: Candidate) -> str:
    step = candidate.step
    batches = step.prefetch.batches
    of_worker = step.seconds_by_resource[Bottleneck.TRAIN_MEMORY] * batches
    return f"{of_worker:.4g} s of a worker for a batch / {batches} batches ahead"


def _network(group: GroupShape, demand: _StepDemand, share: float) -> str:
    gbps = group.instance.card_gbps
    if not gbps:
        return "its network is unknown, so it is not counted"
    gigabits = f"{demand.gigabytes:.4g} GB x 8 bits"
    return f"{share:.4g} x {gigabits} / {group.count} hosts / {gbps:.4g} Gbit/s"


def _vcpus(group: GroupShape) -> int:
    return group.count * (group.instance.vcpu or 0)
