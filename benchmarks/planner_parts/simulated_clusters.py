"""Clusters and workloads of a seed, as the planner and as the simulation take them."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from launcher.client import catalogue
from launcher.client.catalogue import InstanceType
from launcher.client.planning import (
    ClusterShape,
    GroupShape,
    Measure,
    Workload,
    family,
    spare_vcpus,
)
from planner_parts.simulated_service import SimulatedDataHost, SimulatedJob, SimulatedTrainHost

_GIGABIT = 1e9 / 8
MOST_WORKERS, MOST_RANKS = 200, 64
#: Standard error of the mean of all samples, as a share of it, and batches that are played at most.
_SURE, _MOST = 0.01, 5000
TRAINERS = ("ml.g5.xlarge", "ml.g5.8xlarge", "ml.g5.12xlarge", "ml.g5.48xlarge", "ml.p4d.24xlarge")
FEEDERS = ("ml.c5.xlarge", "ml.c5.4xlarge", "ml.c5n.9xlarge", "ml.m5.2xlarge", "ml.c6i.8xlarge")


@dataclass(frozen=True, kw_only=True)
class DrawnCluster:
    """A cluster with a workload. speeds: of each data host, of which some may be slow."""

    workload: Workload
    shape: ClusterShape
    speeds: tuple[float, ...]


def found(name: str) -> InstanceType:
    instance = catalogue.find(name)
    assert instance is not None
    return instance


def draw(seed: int) -> DrawnCluster:
    """Return a cluster and a workload: light to heavy, skewed or even, small to large batches."""
    rng = random.Random(seed)

    def spread(least: float, most: float) -> float:
        return least * (most / least) ** rng.random()

    trainer, feeder = found(rng.choice(TRAINERS)), found(rng.choice(FEEDERS))
    idle = (trainer.vcpu or 0) - trainer.processes
    most = min(MOST_RANKS // trainer.processes, MOST_WORKERS // idle)
    train = GroupShape(instance=trainer, count=rng.randint(1, max(1, most)))
    feeders = rng.randint(0, MOST_WORKERS // (feeder.vcpu or 1))
    data = GroupShape(instance=feeder, count=feeders) if feeders else None
    ranks = train.count * trainer.processes
    workers = feeders * (feeder.vcpu or 1) + train.count * idle
    batch, step = rng.choice([8, 32, 128, 512]), spread(0.02, 0.3)
    mean = step * workers / (ranks * batch)
    slow = rng.choice([1.0, 0.5])
    variation = rng.choice([0, 0.5, 1, 2] if slow == 1 else [0, 0.5, 1])
    speeds = tuple(slow if rng.random() < 0.2 else 1.0 for _ in range(feeders))
    size = spread(1e5, 3e8)
    # A fast host is no faster than its network; the planner knows the mean of the hosts' speeds.
    full = _rate(feeder) / size * batch * mean / (feeder.vcpu or 1)
    usable = [min(speed, full) for speed in speeds] or [1.0]
    workload = Workload(
        cpu_seconds_per_batch=Measure.exact(0),
        batch_size=batch,
        cpu_seconds_per_sample=replace(Measure.exact(mean), deviation=mean * variation),
        bytes_per_batch=size,
        gpu_seconds_per_step={trainer.accelerator_name or "": Measure.exact(step * spread(0.2, 2))},
        cpu_speed={
            family(trainer): 1.0,
            family(feeder): sum(usable) / len(usable),
        },
    )
    return DrawnCluster(
        workload=workload, shape=ClusterShape(train=train, data=data), speeds=speeds
    )


def large() -> DrawnCluster:
    """Return 64 ranks fed by 200 data workers, a fifth of which has half the speed."""
    speeds = (0.5, 1.0, 1.0, 1.0, 1.0) * 5
    workload = Workload(
        cpu_seconds_per_batch=Measure.exact(0),
        batch_size=32,
        cpu_seconds_per_sample=replace(Measure.exact(0.005), deviation=0.005),
        bytes_per_batch=32 * 150_528,
        gpu_seconds_per_step={"NVIDIA A10G": Measure.exact(0.02)},
        cpu_speed={"g5": 1.0, "m5": sum(speeds) / len(speeds)},
        cpus_per_rank=11.9,  # enough is left to receive, and none for local workers
    )
    train = GroupShape(instance=found("ml.g5.12xlarge"), count=16)
    data = GroupShape(instance=found("ml.m5.2xlarge"), count=len(speeds))
    shape = ClusterShape(train=train, data=data)
    return DrawnCluster(workload=workload, shape=shape, speeds=speeds)


def turns(job: SimulatedJob) -> tuple[int, int]:
    """Return the steps of a job to leave out at first, and those to measure after them.

    In a turn, each worker prepares a batch, a slow one as well. Long samples are rare, so that many
    are needed for their share of the time to be the usual one.
    """
    speeds = [host.speed for host in job.data_hosts] or [1.0]
    workers = sum(host.workers for host in job.data_hosts)
    workers += sum(host.local_workers for host in job.train_hosts)
    turn = workers / job.ranks / min(speeds)
    variation = job.deviation / job.sample_seconds
    enough = (variation / _SURE) ** 2 / (job.ranks * job.batch_size)
    return math.ceil(3 * turn) + 10, math.ceil(min(max(8 * turn, enough, 40), _MOST / job.ranks))


def simulated(each: DrawnCluster, prefetch_bytes: int) -> SimulatedJob:
    """Return the job that the simulation plays, with a local worker on each idle vCPU."""
    workload, train = each.workload, each.shape.train
    idle = spare_vcpus(workload, train) / train.count
    return SimulatedJob(
        data_hosts=_data_hosts(each.shape.data, each.speeds),
        train_hosts=(
            SimulatedTrainHost(
                ranks=train.instance.processes,
                local_workers=int(idle),
                idle=idle,
                rate=_rate(train.instance),
            ),
        )
        * train.count,
        batch_size=workload.batch_size,
        sample_seconds=workload.cpu_seconds_per_sample.mean,
        deviation=workload.cpu_seconds_per_sample.deviation,
        batch_bytes=workload.bytes_per_batch,
        train_seconds=next(iter(workload.gpu_seconds_per_step.values())).mean,
        prefetch_bytes=prefetch_bytes,
    )


def _data_hosts(group: GroupShape | None, speeds: Sequence[float]) -> tuple[SimulatedDataHost, ...]:
    if group is None:
        return ()
    workers, rate = group.instance.vcpu or 1, _rate(group.instance)
    return tuple(SimulatedDataHost(workers=workers, speed=each, rate=rate) for each in speeds)


def _rate(instance: InstanceType) -> float:
    return instance.card_gbps * _GIGABIT if instance.card_gbps else math.inf
