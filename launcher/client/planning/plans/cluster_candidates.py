"""The clusters that are compared for a workload, each with its step and its costs."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from launcher.client.catalogue import InstanceType, Price
from launcher.client.planning.plans.exchange import train_strategy
from launcher.client.planning.plans.parallel_strategy import Strategy
from launcher.client.planning.plans.step_model import (
    Bottleneck,
    ClusterShape,
    GroupShape,
    Interval,
    StepEstimate,
    data_workers,
    estimate_step,
    family,
    spare_vcpus,
)
from launcher.client.planning.workloads.workload import Workload
from launcher.client.spec import HostMemory
from launcher.shared import PREFETCH_SHARE

#: Families whose types make a data group: compute-optimized (c) and general-purpose ones (m).
_DATA_FAMILY = re.compile(r"[cm]\d")
#: Hosts of a data group that are considered at most.
MOST_DATA_HOSTS = 64
_HOUR = 3600
_GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class PricedType:
    """An instance type with its price in a region."""

    instance: InstanceType
    price: Price


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A cluster in a region, with its predicted step and its cost.

    prices: of one train host, and of one data host if there are any. per_hour, per_step, per_epoch,
    total: dollars (USD), by their names in `launcher plan -o json`.
    """

    workload: Workload
    region: str
    shape: ClusterShape
    prices: tuple[Price, ...]
    step: StepEstimate
    per_hour: float

    @property
    def spot_per_hour(self) -> tuple[float, float] | None:
        """Least and most dollars per hour with spot instances; None if the user gave no prices."""
        counts = [group.count for group in (self.shape.train, self.shape.data) if group]
        ranges = [price.spot for price in self.prices if price.spot]
        if len(ranges) < len(self.prices):
            return None
        pairs = list(zip(counts, ranges, strict=True))
        return sum(n * low for n, (low, _) in pairs), sum(n * high for n, (_, high) in pairs)

    @property
    def samples_per_step(self) -> int:
        """Samples that all ranks consume in a step."""
        return self.shape.ranks * self.workload.batch_size

    @property
    def per_step(self) -> Interval:
        """Dollars per step."""
        return self.step.seconds.times(self.per_hour / _HOUR)

    @functools.cached_property
    def dollars_per_sample(self) -> float:
        """Expected dollars per sample, which compares clusters of different global batches."""
        return self.per_hour / _HOUR * self.seconds_per_sample

    @functools.cached_property
    def seconds_per_sample(self) -> float:
        """Expected seconds per sample, with the job's start if the number of steps is known."""
        start = self.workload.start_seconds.mean / self._steps if self._steps else 0.0
        return (self.step.expected + start) / self.samples_per_step

    @property
    def _steps(self) -> int | None:
        """Steps of all epochs; None if they are unknown."""
        steps, epochs = self.steps_per_epoch, self.workload.epochs
        return None if steps is None or epochs is None else steps * epochs

    @property
    def steps_per_epoch(self) -> int | None:
        """Steps of an epoch; None if its samples are unknown."""
        samples = self.workload.samples_per_epoch
        return None if samples is None else math.ceil(samples / self.samples_per_step)

    @property
    def per_epoch(self) -> Interval | None:
        """Dollars per epoch; None if its samples are unknown."""
        steps = self.steps_per_epoch
        return None if steps is None else self.per_step.times(steps)

    @property
    def hours(self) -> Interval | None:
        """Hours of all epochs, with the job's start; None if they are unknown."""
        start = self.workload.start_seconds
        if self._steps is None:
            return None
        training = self.step.seconds.times(self._steps)
        return Interval(
            low=training.low + start.low,
            expected=training.expected + start.mean,
            high=training.high + start.high,
        ).times(1 / _HOUR)

    @property
    def total(self) -> Interval | None:
        """Dollars of all epochs; None if they are unknown."""
        return None if self.hours is None else self.hours.times(self.per_hour)

    @functools.cached_property
    def strategy(self) -> Strategy | None:
        """The parallel strategy; None if the workload has no figures of its model."""
        train = self.shape.train
        return train_strategy(self.workload, train.instance, train.count)

    @property
    def hosts(self) -> int:
        """The number of all hosts."""
        return self.shape.train.count + (self.shape.data.count if self.shape.data else 0)


def candidates(
    workload: Workload,
    types_by_region: Mapping[str, Iterable[PricedType]],
    train_hosts: Iterable[int] = (1,),
) -> Iterator[Candidate]:
    """Yield every cluster of one group, and of two with each useful number of data hosts.

    A number of data hosts is useful if the step is shorter than with any smaller one. Clusters are
    left out that have no vCPU or no memory to prepare batches, or no vCPU of train hosts to receive
    them.
    """
    counts = tuple(train_hosts)
    for region, types in types_by_region.items():
        listed = list(types)
        trainers = [
            each
            for each in listed
            if can_train(workload, each.instance) and has_batch_room(workload, each.instance)
        ]
        feeders = [
            each
            for each in listed
            if can_prepare(each.instance) and data_workers(workload, each.instance)
        ]
        for trainer in trainers:
            for count in counts:
                if not has_memory(workload, trainer.instance, count):
                    continue
                train = train_group(workload, trainer.instance, count)
                alone = priced_cluster(workload, region, train, trainer.price)
                if math.isfinite(alone.step.expected):
                    yield alone
                for feeder in feeders:
                    yield from _two_groups(alone, trainer.price, feeder)


def can_train(workload: Workload, instance: InstanceType) -> bool:
    """Return whether the type's vCPUs and the workload's time on its accelerator are known."""
    return (
        instance.accelerator_name in workload.gpu_seconds_per_step
        and instance.accelerators > 0
        and bool(instance.vcpu)
    )


def has_memory(workload: Workload, instance: InstanceType, count: int) -> bool:
    """Return False if the model is known to fit into these hosts' accelerators in no way."""
    strategy = train_strategy(workload, instance, count)
    return strategy is None or strategy.fits is not False


def has_batch_room(workload: Workload, instance: InstanceType) -> bool:
    """Return False if a batch of each rank fits into neither memory: the host's or accelerators'.

    Batches that are ahead may take PREFETCH_SHARE of a host's.
    """
    size, own = workload.bytes_per_batch, instance.accelerator_memory_gib
    batches = HostMemory(finished=instance.processes * size / PREFETCH_SHARE)
    in_host = batches.shortage(instance.memory_gib) is None
    in_accelerator = own is None or size <= own * _GIB / max(1, instance.accelerator_cores)
    return in_host and in_accelerator


def train_group(workload: Workload, instance: InstanceType, count: int = 1) -> GroupShape:
    """Return train hosts with the workers of the script's own loader, if it has one."""
    own = workload.workers_per_rank
    workers = None if own is None else own * instance.processes
    return GroupShape(instance=instance, count=count, workers=workers)


def has_idle_vcpus(workload: Workload, instance: InstanceType) -> bool:
    """Return whether the ranks leave vCPUs of a train host to prepare or receive, or share them."""
    return spare_vcpus(workload, train_group(workload, instance)) > 0


def can_prepare(instance: InstanceType) -> bool:
    """Return whether a data group may have the type."""
    return _DATA_FAMILY.match(family(instance)) is not None and bool(instance.vcpu)


def _two_groups(alone: Candidate, price: Price, feeder: PricedType) -> Iterator[Candidate]:
    shapes = (
        GroupShape(instance=feeder.instance, count=count) for count in range(1, MOST_DATA_HOSTS + 1)
    )
    workload, region = alone.workload, alone.region
    train = replace(alone.shape.train, workers=None)  # the data service has its own
    clusters = (
        priced_cluster(workload, region, train, price, data, feeder.price) for data in shapes
    )
    return useful_clusters(clusters, alone.step.expected)


def useful_clusters(clusters: Iterable[Candidate], alone: float = math.inf) -> Iterator[Candidate]:
    """Yield the clusters whose step is shorter than that of all before them.

    clusters: the same but for the number of data hosts, which grows by one. alone: seconds of the
    step without data hosts. More of them never lengthen what a step takes with batches in time, but
    its waits for late batches may get longer before they get shorter. So the search ends only where
    no step can be shorter.
    """
    shortest, before = alone, math.inf
    for each in clusters:
        step = each.step
        if step.expected < shortest:
            yield each
            shortest = step.expected
        is_least = step.in_time in (before, step.seconds_by_resource[Bottleneck.ACCELERATOR])
        if is_least and shortest <= step.in_time:
            return
        before = step.in_time


def priced_cluster(
    workload: Workload,
    region: str,
    train: GroupShape,
    train_price: Price,
    data: GroupShape | None = None,
    data_price: Price | None = None,
) -> Candidate:
    """Return a cluster with its predicted step and its cost per hour."""
    shape = ClusterShape(train=train, data=data)
    per_hour = train.count * train_price.per_hour
    prices: tuple[Price, ...] = (train_price,)
    if data and data_price:
        per_hour += data.count * data_price.per_hour
        prices = (train_price, data_price)
    return Candidate(
        workload=workload,
        region=region,
        shape=shape,
        prices=prices,
        step=estimate_step(workload, shape),
        per_hour=per_hour,
    )
