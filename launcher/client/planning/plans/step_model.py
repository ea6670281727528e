"""The time of one training step on a cluster, from a workload: pure arithmetic.

A step needs `cpu` seconds of vCPUs to prepare the batches of all ranks, and `gpu` seconds of each
accelerator. Preparation overlaps with training, so a step takes as long as the slower of the two.
Idle vCPUs of train hosts prepare batches too. Each vCPU has one worker, more where samples wait for
storage, so that it computes meanwhile, and fewer where memory does not hold them. A data group
takes a share f of the batches, so that

    preparation(f) = max(local (1 - f) + receive f, remote f)

where `local` and `receive` are seconds of the train hosts' idle vCPUs, and `remote` of the slowest
of the data group's workers, its network, and the train hosts' network. The best share is where both
are equal; it is 0 where receiving a batch takes longer than preparing it.

Workers of a given number share the vCPUs of train hosts with the ranks, which lack them only while
they train: the step takes as long as the slowest of the ranks, the workers, and the CPU seconds of
all of them on all vCPUs. Without workers each rank prepares its own batch, then trains on it.

Each rank holds as many prepared batches as its host's memory allows, and workers are idle where
these are too few. A batch that takes longer than the steps that they last adds a wait.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from launcher.client.catalogue import InstanceType, cpu_speeds
from launcher.client.planning.plans.amounts import Term, text_of
from launcher.client.planning.plans.exchange import exchange_seconds
from launcher.client.planning.plans.prefetch import (
    BatchTimes,
    Prefetch,
    prefetch_for,
    stall_seconds,
)
from launcher.shared import PREFETCH_SHARE

if TYPE_CHECKING:
    from launcher.client.planning.workloads.workload import Workload

#: CPU seconds per GB on each side of the data service: "ours" in benchmarks/RESULTS.md has 0.114 to
#: 0.14 on the trainer's side, and raw TCP as much on the other.
SECONDS_PER_GB = 0.14
#: CPU seconds of a batch on each side of the data service, by those of a loader without one: 263
#: and 58 us of one int in benchmarks/RESULTS.md, "The loader without a data group".
SERVED_BATCHES = 4.5
#: Factor by which a CPU may be slower or faster where it cannot be compared with the workload's.
UNKNOWN_SPEED = 1.25
#: Workers of a vCPU at most: how fast storage serves so many readers is not measured.
MOST_WORKERS_PER_VCPU = 8
#: Shares of a host's memory that its workers may take: train hosts hold finished batches, too.
_TRAIN_SHARE, _DATA_SHARE = 1 - PREFETCH_SHARE, 0.9
_MANY = 1 << 20
_GIB = 2**30
_BITS_PER_BYTE = 8
#: Units of what a step is computed from, in its formulas.
_UNITS = {
    **dict.fromkeys(("cpu_seconds", "wait_seconds"), "s"),
    **dict.fromkeys(("train_speed", "data_speed"), ""),
    **dict.fromkeys(("train_gbps", "data_gbps"), "Gbit/s"),
    **dict.fromkeys(("local_vcpus", "data_vcpus", "idle_vcpus"), "vCPUs"),
    **dict.fromkeys(("local", "data"), "workers"),
    "served_seconds": "s for its batches",
    "rank_seconds": "s of ranks",
    "exchange_seconds": "s between ranks",
    "gigabytes": "GB",
}
#: The end of the range of a CPU's speed with which a step is predicted, by that of the measures.
_SPEED_ENDS = {"low": "high", "mean": "mean", "high": "low"}


class Bottleneck(enum.Enum):
    """The resource that a step waits for."""

    ACCELERATOR = "accelerator"
    TRAIN_CPU = "train CPUs"
    DATA_CPU = "data CPUs"
    TRAIN_MEMORY = "train memory"
    TRAIN_NETWORK = "train network"
    DATA_NETWORK = "data network"

    __hash__ = object.__hash__  # that of Enum takes a tenth of the time of a comparison


@dataclass(frozen=True, kw_only=True)
class GroupShape:
    """The hosts of one group.

    workers: processes that prepare batches on each of them; 0 leaves that to the ranks. None for as
    many as fit on vCPUs that no rank keeps busy.
    """

    instance: InstanceType
    count: int
    workers: int | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True)
class ClusterShape:
    """The hosts that train, and those that only prepare data (None if there are none)."""

    train: GroupShape
    data: GroupShape | None = None

    @property
    def ranks(self) -> int:
        """The number of trainer processes."""
        return self.train.count * self.train.instance.processes


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An expected value, and the range that it lies in."""

    low: float
    expected: float
    high: float

    def times(self, factor: float) -> Interval:
        """Return the interval scaled by a positive factor."""
        return Interval(
            low=self.low * factor, expected=self.expected * factor, high=self.high * factor
        )


@dataclass(frozen=True, kw_only=True)
class StepEstimate:
    """The predicted step of a cluster.

    expected: seconds of one step. bottleneck, gpu_busy (0 to 1), offloaded: for the expected step;
    offloaded is the share of batches that the data group prepares. seconds_by_resource: seconds
    that each resource needs. in_time: the most of them, if enough batches were prepared ahead.
    stall: seconds that it waits for batches that take long, after those of the bottleneck.
    exchange: seconds that ranks add to each other's; None if several hosts' are unknown.
    prefetch: batches that are prepared ahead.
    """

    expected: float
    in_time: float
    bottleneck: Bottleneck
    gpu_busy: float
    offloaded: float
    seconds_by_resource: Mapping[Bottleneck, float]
    stall: float
    exchange: float | None
    prefetch: Prefetch
    _workload: Workload = field(repr=False, compare=False)
    _shape: ClusterShape = field(repr=False, compare=False)
    _workers: _Workers = field(repr=False, compare=False)

    @functools.cached_property
    def seconds(self) -> Interval:
        """The seconds of one step; computed only for the clusters that are shown."""
        ends = [self.expected, *(self._with(end) for end in ("low", "high"))]
        return Interval(low=min(ends), expected=self.expected, high=max(ends))

    def _with(self, end: str) -> float:
        """Return the seconds with the measures at either end of their ranges."""
        load = _load(self._workload, self._shape, self._workers, end)
        seconds_by_resource, share = _resources(self._shape, load)
        return _step(self._workload, load, seconds_by_resource, share, self.prefetch)[0]

    @property
    def formulas(self) -> Mapping[Bottleneck, str]:
        """The computation of the seconds that each resource needs."""
        load = _load(self._workload, self._shape, self._workers, "mean")
        batch = _batch_times(self._workload, load, self.offloaded).mean
        of_gpu = f"s of {self._shape.train.instance.accelerator_name}"
        terms = _as_terms(load)._replace(
            workers=_as_terms(load.workers), gpu_seconds=Term(load.gpu_seconds, of_gpu)
        )
        computed, _ = _resources(self._shape, terms, Term(self.offloaded))
        computed[Bottleneck.TRAIN_MEMORY] = Term(batch, "s of a worker for a batch") / Term(
            self.prefetch.batches, "batches ahead"
        )
        found = {each: text_of(seconds) for each, seconds in computed.items()}
        gbps = {Bottleneck.TRAIN_NETWORK: load.train_gbps, Bottleneck.DATA_NETWORK: load.data_gbps}
        return found | {
            each: "its network is unknown, so it is not counted"
            for each, known in gbps.items()
            if each in found and not known
        }


class _Workers(NamedTuple):
    """Workers of all hosts, and the vCPUs that compute for them.

    local_vcpus: whole ones that ranks of train hosts leave idle, or share.
    data_vcpus: of the data group. idle_vcpus: of the train hosts, with parts. local, data: workers.
    """

    local_vcpus: int
    data_vcpus: int
    idle_vcpus: float
    local: int
    data: int


class _Load(NamedTuple):
    """The demand of one step of all ranks, at one end of the measures' ranges, and its workers.

    served_seconds: for batches that are sent or received, beside those for their bytes.
    rank_seconds: of the vCPUs that ranks and workers share; 0 where ranks have their own.
    wait_seconds: for which workers wait for storage. exchange_seconds: between ranks, 0 if unknown.
    train_speed, data_speed: of vCPUs when all of a host are busy. train_gbps, data_gbps: of the
    networks of all hosts; 0 if unknown.
    """

    ranks: int
    cpu_seconds: float
    served_seconds: float
    rank_seconds: float
    wait_seconds: float
    gpu_seconds: float
    exchange_seconds: float
    is_exchange_known: bool
    gigabytes: float
    train_speed: float
    data_speed: float
    train_gbps: float
    data_gbps: float
    workers: _Workers


_Figures = TypeVar("_Figures", _Workers, _Load)


def _as_terms(figures: _Figures) -> _Figures:
    """Return the same numbers with their units, so that what is computed of them has a text."""
    terms: dict[str, Any] = {
        name: Term(each, _UNITS[name]) for name, each in figures._asdict().items() if name in _UNITS
    }
    return figures._replace(**terms)


def family(instance: InstanceType) -> str:
    """Return the family of a type, such as "c5" of "ml.c5.xlarge"."""
    return _family(instance.name)


@functools.lru_cache(maxsize=1024)
def _family(name: str) -> str:
    return name.removeprefix("ml.").partition(".")[0]


def spare_vcpus(workload: Workload, train: GroupShape) -> float:
    """Return the vCPUs of all train hosts that their ranks leave idle, or share; 0 if unknown."""
    busy = train.instance.processes * workload.cpus_per_rank if train.workers is None else 0.0
    return train.count * max(0.0, (train.instance.vcpu or 0) - busy)


def local_vcpus(workload: Workload, train: GroupShape) -> int:
    """Return the whole vCPUs of each train host that its ranks leave idle."""
    return int(spare_vcpus(workload, train) / train.count)


def local_workers(workload: Workload, train: GroupShape) -> int:
    """Return the workers of each train host: those given, or on vCPUs that its ranks leave idle."""
    if train.workers is not None:
        return train.workers
    vcpus = local_vcpus(workload, train)
    return min(_wanted_workers(workload, vcpus), _fitting(workload, train.instance, _TRAIN_SHARE))


def data_workers(workload: Workload, instance: InstanceType) -> int:
    """Return the workers of a data host."""
    wanted = _wanted_workers(workload, instance.vcpu or 0)
    return min(wanted, _fitting(workload, instance, _DATA_SHARE))


def _wanted_workers(workload: Workload, vcpus: int) -> int:
    """Return one worker for each vCPU, or as many as keep it busy where samples wait."""
    wait, cpu = workload.wait_seconds_per_sample.mean, workload.cpu_seconds_per_sample.mean
    if not wait:
        return vcpus
    each = MOST_WORKERS_PER_VCPU
    return vcpus * (min(each, math.ceil(1 + wait / cpu)) if cpu * each > wait else each)


def _fitting(workload: Workload, instance: InstanceType, share: float) -> int:
    """Return the workers that have room in a share of a host's memory, none less than a batch."""
    each = max(workload.bytes_per_worker, workload.bytes_per_batch)
    if instance.memory_gib is None or not each:
        return _MANY
    return int(min(_MANY, instance.memory_gib * _GIB * share / each))


def estimate_step(workload: Workload, shape: ClusterShape) -> StepEstimate:
    """Predict the step of a cluster; its accelerator must be one of the workload's."""
    workers = _workers(workload, shape)
    load = _load(workload, shape, workers, "mean")
    seconds_by_resource, share = _resources(shape, load)
    in_time = max(seconds_by_resource.values())
    prefetch = _prefetch(workload, shape, load, in_time, share)
    seconds, bottleneck, stall = _step(workload, load, seconds_by_resource, share, prefetch)
    return StepEstimate(
        expected=seconds,
        in_time=in_time,
        bottleneck=bottleneck,
        gpu_busy=load.gpu_seconds / seconds if seconds else 0.0,
        offloaded=share,
        seconds_by_resource=seconds_by_resource,
        stall=stall,
        exchange=load.exchange_seconds if load.is_exchange_known else None,
        prefetch=prefetch,
        _workload=workload,
        _shape=shape,
        _workers=workers,
    )


def _workers(workload: Workload, shape: ClusterShape) -> _Workers:
    train, data = shape.train, shape.data
    feeders = 0
    if data:
        each = data_workers(workload, data.instance) if data.workers is None else data.workers
        feeders = data.count * each
    return _Workers(
        local_vcpus=train.count * local_vcpus(workload, train),
        data_vcpus=data.count * (data.instance.vcpu or 0) if data else 0,
        idle_vcpus=spare_vcpus(workload, train),
        local=train.count * local_workers(workload, train),
        data=feeders,
    )


def _load(workload: Workload, shape: ClusterShape, workers: _Workers, end: str) -> _Load:
    """Return the demand of a step. end: "low", "mean" or "high" of each measure."""
    train, data, ranks = shape.train, shape.data, shape.ranks
    seconds: float = getattr(workload.cpu_seconds_per_sample, end)
    wait: float = getattr(workload.wait_seconds_per_sample, end)
    each_batch: float = getattr(workload.cpu_seconds_per_batch, end)
    if end == "high":
        seconds += _spread(workload, workers)
    by_accelerator = workload.gpu_seconds_per_step
    gpu_seconds: float = getattr(by_accelerator[train.instance.accelerator_name or ""], end)
    ranks_share = 0.0 if train.workers is None else ranks * workload.cpus_per_rank
    exchange = exchange_seconds(workload, train.instance, train.count, gpu_seconds, end)
    return _Load(
        ranks=ranks,
        cpu_seconds=ranks * (workload.batch_size * seconds + each_batch),
        served_seconds=ranks * each_batch * SERVED_BATCHES,
        rank_seconds=ranks_share * gpu_seconds / workload.parallel_efficiency,
        wait_seconds=ranks * workload.batch_size * wait,
        gpu_seconds=gpu_seconds,
        exchange_seconds=exchange or 0.0,
        is_exchange_known=exchange is not None,
        gigabytes=ranks * workload.bytes_per_batch / 1e9,
        train_speed=vcpu_speed(workload, train.instance, _SPEED_ENDS[end]),
        data_speed=vcpu_speed(workload, data.instance, _SPEED_ENDS[end]) if data else 1.0,
        train_gbps=train.count * (train.instance.card_gbps or 0.0),
        data_gbps=data.count * (data.instance.card_gbps or 0.0) if data else 0.0,
        workers=workers,
    )


def vcpu_speed(workload: Workload, instance: InstanceType, end: str = "mean") -> float:
    """Return the speed of a vCPU when all are busy; end: "low", "mean" or "high" of its range."""
    name = family(instance)
    given = workload.cpu_speed.get(name)
    return workload.parallel_efficiency * (given or _usual_speed(workload, name, end))


def _usual_speed(workload: Workload, name: str, end: str) -> float:
    """Return the speed of a family that the workload does not have, from public benchmarks.

    They are relative to the families that it has. Without any, and for a family that is not in the
    benchmarks, it may be UNKNOWN_SPEED times as slow or fast.
    """
    known, reference = cpu_speeds().get(name), workload.cpu_reference
    speed: float = getattr(known, end) if known else 1.0
    if known and reference:
        return speed * reference
    return speed * {"low": 1 / UNKNOWN_SPEED, "mean": 1.0, "high": UNKNOWN_SPEED}[end]


def _spread(workload: Workload, workers: _Workers) -> float:
    """Return two standard errors of the mean of the samples that are prepared at one time."""
    samples = workload.batch_size * max(1, workers.local + workers.data)
    return 2 * workload.cpu_seconds_per_sample.deviation / math.sqrt(samples)


def _prefetch(
    workload: Workload, shape: ClusterShape, load: _Load, longest: float, share: float
) -> Prefetch:
    """Return what is prepared ahead of ranks whose steps take so long."""
    local, data = load.workers.local, load.workers.data
    # Of the group that has more workers for each of its batches, which are prepared for longer.
    each = [(local, load.ranks * (1 - share)), (data, load.ranks * share)]
    return prefetch_for(
        _batch_times(workload, load, share),
        longest,
        workers_per_rank=max((count / batches for count, batches in each if batches), default=0.0),
        workers=local + data,
        ranks=load.ranks,
        hosts=shape.train.count,
        batch_bytes=workload.bytes_per_batch,
        memory_gib=shape.train.instance.memory_gib,
    )


def _step(
    workload: Workload,
    load: _Load,
    seconds_by_resource: dict[Bottleneck, float],
    share: float,
    prefetch: Prefetch,
) -> tuple[float, Bottleneck, float]:
    """Return the seconds of a step, its bottleneck and the stall; add the memory's seconds."""
    times = _batch_times(workload, load, share)
    seconds_by_resource[Bottleneck.TRAIN_MEMORY] = times.mean / prefetch.batches
    longest, bottleneck = _longest(seconds_by_resource)
    is_ahead = load.workers.local + load.workers.data > 0
    stall = is_ahead * stall_seconds(times, load.ranks, longest, prefetch.batches)
    return longest + stall, bottleneck, stall


def _batch_times(workload: Workload, load: _Load, share: float) -> BatchTimes:
    """Return the seconds of a worker per batch, of which a data host's prepares a share."""
    cpu = workload.cpu_seconds_per_sample
    seconds = cpu.mean + workload.wait_seconds_per_sample.mean
    workers = load.workers
    local = _worker_seconds(
        load, load.train_speed, workers.local_vcpus, workers.local, load.rank_seconds
    )
    remote = _worker_seconds(load, load.data_speed, workers.data_vcpus, workers.data)
    return BatchTimes(
        mean=((1 - share) * local + share * remote) / load.ranks,
        samples=workload.batch_size,
        variation=cpu.deviation / seconds if seconds else 0.0,
    )


def _worker_seconds(
    load: _Load, speed: float, vcpus: int, workers: int, beside: float = 0.0
) -> float:
    """Return the seconds of all workers together: more than one on a vCPU take turns.

    beside: seconds of ranks on the same vCPUs.
    """
    computing = load.cpu_seconds / speed
    is_shared = beside or workers > vcpus
    taking_turns = (computing + beside) * workers / vcpus if is_shared else computing
    return max(taking_turns, computing + load.wait_seconds)


def _resources(
    shape: ClusterShape, load: _Load, known_share: float | None = None
) -> tuple[dict[Bottleneck, float], float]:
    """Return the seconds that each resource needs, and the share of the data group.

    known_share: that share; None for the best one. With a load of terms, the seconds are terms.
    """
    accelerator = load.gpu_seconds + load.exchange_seconds
    vcpus, workers = load.workers.local_vcpus, load.workers.local
    computing, local = load.cpu_seconds / load.train_speed, math.inf
    if workers:
        seconds = _worker_seconds(load, load.train_speed, vcpus, workers, load.rank_seconds)
        local = seconds / workers
    elif shape.train.workers == 0 and not shape.data:
        alone = (computing + load.wait_seconds) / load.ranks + accelerator
        local = max(alone, (computing + load.rank_seconds) / vcpus)
    seconds_by_resource = {Bottleneck.ACCELERATOR: accelerator, Bottleneck.TRAIN_CPU: local}
    if not shape.data:
        return seconds_by_resource, 0.0
    remote = _remote(load)
    idle = load.workers.idle_vcpus
    moving = load.gigabytes * SECONDS_PER_GB + load.served_seconds
    receive = (moving + load.rank_seconds) / idle if idle else math.inf
    share = known_share
    if share is None:
        share = _best_share(local, receive, max(remote.values()))
    own = (1 - share) * local if share < 1 else 0.0
    seconds_by_resource[Bottleneck.TRAIN_CPU] = own + share * receive if idle else math.inf
    for each, seconds in remote.items():
        seconds_by_resource[each] = share * seconds if share else 0.0
    return seconds_by_resource, share


def _remote(load: _Load) -> dict[Bottleneck, float]:
    """Return the seconds that each resource of the data group's way needs for all batches."""
    vcpus, workers, prepare = load.workers.data_vcpus, load.workers.data, math.inf
    if workers:
        prepare = _worker_seconds(load, load.data_speed, vcpus, workers) / workers
    moving = load.gigabytes * SECONDS_PER_GB + load.served_seconds
    send = moving / vcpus if vcpus else math.inf
    gigabits = load.gigabytes * _BITS_PER_BYTE
    return {
        Bottleneck.DATA_CPU: prepare + send,
        Bottleneck.TRAIN_NETWORK: gigabits / load.train_gbps if load.train_gbps else 0.0,
        Bottleneck.DATA_NETWORK: gigabits / load.data_gbps if load.data_gbps else 0.0,
    }


def _best_share(local: float, receive: float, remote: float) -> float:
    if receive >= local:
        return 0.0
    if local == math.inf:
        return 1.0
    return min(1.0, local / (local - receive + remote))


def _longest(seconds_by_resource: Mapping[Bottleneck, float]) -> tuple[float, Bottleneck]:
    """Return the longest time and its resource: of equal ones the accelerator, or the last."""
    longest = max(seconds_by_resource.values())
    near = longest * (1 - 1e-9)
    binding = [each for each, seconds in seconds_by_resource.items() if seconds >= near]
    return longest, binding[0] if binding[0] is Bottleneck.ACCELERATOR else binding[-1]
