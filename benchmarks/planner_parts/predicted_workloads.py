"""The workloads that are predicted, and the clusters that this machine plays for them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace

from launcher.client.catalogue import InstanceType
from launcher.client.planning import (
    ClusterShape,
    GroupShape,
    Measure,
    ModelFigures,
    Workload,
    estimate_step,
)
from launcher.shared import Footprint


@dataclass(frozen=True, kw_only=True)
class PredictedWorkload:
    """name: of its dataset in inside/work_samples.py. units: of a step's own work."""

    name: str
    batch_size: int
    batch_bytes: int
    units: int


#: Batches that are prepared ahead of the rank: few, so that the time of a step is a steady one.
BATCHES_AHEAD = 12
#: Light, skewed, and large samples, and some that wait for storage.
WORKLOADS = (
    PredictedWorkload(name="tokens", batch_size=256, batch_bytes=307_200, units=6000),
    PredictedWorkload(name="records", batch_size=16, batch_bytes=256, units=4000),
    PredictedWorkload(name="volumes", batch_size=8, batch_bytes=16_777_216, units=5000),
    PredictedWorkload(name="stored", batch_size=16, batch_bytes=80_000, units=9000),
)


@dataclass(frozen=True, kw_only=True)
class LinkedRanks:
    """Ranks that sum gradients over links, of so many Mbit/s and MB; seconds: of a step without."""

    ranks: int
    megabits: int
    megabytes: int
    seconds: float

    @property
    def name(self) -> str:
        return f"{self.ranks} ranks, {self.megabytes} MB over {self.megabits} Mbit/s"


LINKED = (
    LinkedRanks(ranks=2, megabits=100, megabytes=8, seconds=0.2),
    LinkedRanks(ranks=2, megabits=300, megabytes=16, seconds=0.2),
    LinkedRanks(ranks=2, megabits=1000, megabytes=40, seconds=0.2),
    LinkedRanks(ranks=2, megabits=1000, megabytes=120, seconds=0.6),
    LinkedRanks(ranks=3, megabits=100, megabytes=8, seconds=0.2),
    LinkedRanks(ranks=3, megabits=500, megabytes=24, seconds=0.2),
    LinkedRanks(ranks=3, megabits=1000, megabytes=40, seconds=0.2),
    LinkedRanks(ranks=4, megabits=300, megabytes=16, seconds=0.2),
)


@dataclass(frozen=True, kw_only=True)
class MeasuredParts:
    """What is measured of a workload before it is predicted.

    sample_cpu, deviation, sample_wait: seconds to prepare a sample, with a CPU and waiting for
    storage. batch_bytes: of a prepared batch. efficiency: share of a core's speed that is left when
    all are busy. step_seconds, step_cpu: of a step, from its batch until the script asks for the
    next one.
    """

    sample_cpu: float
    deviation: float
    sample_wait: float
    batch_bytes: float
    efficiency: float
    step_seconds: float
    step_cpu: float


def median_parts(found: Sequence[MeasuredParts]) -> MeasuredParts:
    """Return the medians of several measurements of a workload."""
    names = [each.name for each in fields(MeasuredParts)]
    return MeasuredParts(
        **{name: statistics.median(getattr(each, name) for each in found) for name in names}
    )


def predictions(
    each: PredictedWorkload, parts: MeasuredParts, cores: int, most: int
) -> Iterator[tuple[str, float]]:
    """Yield what the planner predicts of a workload, by "shared" or "apart" and its workers."""
    cpu = Measure.exact(parts.sample_cpu)
    workload = _workload(
        batch_size=each.batch_size,
        cpu_seconds_per_sample=replace(cpu, deviation=parts.deviation),
        wait_seconds_per_sample=Measure.exact(parts.sample_wait),
        bytes_per_batch=parts.batch_bytes,
        seconds=parts.step_seconds,
        parallel_efficiency=min(1.0, parts.efficiency),
        cpus_per_rank=parts.step_cpu / parts.step_seconds,
    )
    for workers in range(most + 1):
        shared = ClusterShape(train=_hosts(cores, workers=workers))
        yield f"shared {workers}", estimate_step(workload, shared).expected
    for workers in range(most + 1):
        data = _hosts(1, workers=workers) if workers else None
        apart = ClusterShape(train=_hosts(1, workers=0), data=data)
        yield f"apart {workers}", estimate_step(workload, apart).expected


def linked_prediction(each: LinkedRanks, seconds: float) -> float:
    """Return the planner's step of linked ranks. seconds: measured, of one rank without a link."""
    size = each.megabytes * 10**6
    workload = _workload(
        batch_size=1,
        cpu_seconds_per_sample=Measure.exact(0.0),
        bytes_per_batch=0.0,
        seconds=seconds,
        model=ModelFigures(footprint=Footprint(parameters=size, gradients=size, states=0)),
    )
    hosts = _hosts(1, count=each.ranks, workers=0, gbps=each.megabits / 1000)
    return estimate_step(workload, ClusterShape(train=hosts)).expected


def _workload(*, seconds: float, **needs: object) -> Workload:
    return Workload(
        gpu_seconds_per_step={"here": Measure.exact(seconds)}, cpu_speed={"here": 1.0}, **needs
    )


def _hosts(vcpu: int, *, workers: int, count: int = 1, gbps: float | None = None) -> GroupShape:
    """Return hosts of so many cores of this machine, whose accelerator is a core, or sleeps."""
    instance = InstanceType(
        name="ml.here.1",
        vcpu=vcpu,
        memory_gib=None,
        accelerators=1,
        accelerator_name="here",
        accelerator_memory_gib=None,
        accelerator_cores=1,
        nvme_gb=None,
        network_gbps=gbps,
        network_cards=1,
    )
    return GroupShape(instance=instance, count=count, workers=workers)
