"""The time of one training step on a cluster, from a workload: pure arithmetic.

A step needs `cpu` seconds of vCPUs to prepare the batches of all ranks, and `gpu` seconds of each
accelerator. Preparation overlaps with training, so a step takes as long as the slower of the two.
Idle vCPUs of train hosts prepare batches too. A data group takes a share f of them, so that

    preparation(f) = max(local (1 - f) + receive f, remote f)

where `local` and `receive` are seconds of the train hosts' idle vCPUs, and `remote` of the slowest
of the data group's vCPUs, its network, and the train hosts' network. The best share is where both
are equal; it is 0 where receiving a batch takes longer than preparing it.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.client.catalogue import InstanceType

if TYPE_CHECKING:
    from launcher.client.planning.workload import Workload

#: CPU seconds per GB on each side of the data service: "ours" in benchmarks/RESULTS.md has 0.114 to
#: 0.14 on the trainer's side, and raw TCP as much on the other.
SECONDS_PER_GB = 0.14
#: Factor by which a CPU family of unknown speed may be slower or faster than that of the workload.
UNKNOWN_SPEED = 1.25
_BITS_PER_BYTE = 8


class Bottleneck(enum.Enum):
    """The resource that a step waits for."""

    ACCELERATOR = "accelerator"
    TRAIN_CPU = "train CPUs"
    DATA_CPU = "data CPUs"
    TRAIN_NETWORK = "train network"
    DATA_NETWORK = "data network"

    __hash__ = object.__hash__  # that of Enum takes a tenth of the time of a comparison


@dataclass(frozen=True, kw_only=True)
class GroupShape:
    """The hosts of one group."""

    instance: InstanceType
    count: int


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

    seconds: of one step. bottleneck, gpu_busy (0 to 1), offloaded: for the expected step; offloaded
    is the share of batches that the data group prepares. limits: seconds that each resource needs.
    """

    seconds: Interval
    bottleneck: Bottleneck
    gpu_busy: float
    offloaded: float
    limits: Mapping[Bottleneck, float]


@dataclass(frozen=True)
class _Load:
    """The demand of one step of all ranks, at one end of the measures' ranges.

    speed_exponent: -1, 0 or 1: CPU families of unknown speed are slow, as fast, or fast.
    """

    cpu_seconds: float
    gpu_seconds: float
    gigabytes: float
    speed_exponent: int


def family(instance: InstanceType) -> str:
    """Return the family of a type, such as "c5" of "ml.c5.xlarge"."""
    return _family(instance.name)


@functools.lru_cache(maxsize=1024)
def _family(name: str) -> str:
    return name.removeprefix("ml.").partition(".")[0]


def spare_vcpus(workload: Workload, train: GroupShape) -> float:
    """Return the vCPUs of all train hosts that their ranks leave idle; 0 if unknown."""
    ranks = train.instance.processes
    return train.count * max(0.0, (train.instance.vcpu or 0) - ranks * workload.cpus_per_rank)


def estimate_step(workload: Workload, shape: ClusterShape) -> StepEstimate:
    """Predict the step of a cluster; its accelerator must be one of the workload's."""
    expected, bottleneck, offloaded, limits = _step(workload, shape, _load(workload, shape, 0))
    low = _step(workload, shape, _load(workload, shape, 1))[0]
    high = _step(workload, shape, _load(workload, shape, -1))[0]
    gpu = limits[Bottleneck.ACCELERATOR]
    return StepEstimate(
        seconds=Interval(low=min(low, expected), expected=expected, high=max(high, expected)),
        bottleneck=bottleneck,
        gpu_busy=gpu / expected if expected else 0.0,
        offloaded=offloaded,
        limits=limits,
    )


def _load(workload: Workload, shape: ClusterShape, luck: int) -> _Load:
    """Return the demand with measures at their best (luck 1), expected (0) or worst (-1)."""
    end = {1: "low", 0: "mean", -1: "high"}[luck]
    cpu = workload.cpu_seconds_per_sample
    seconds: float = getattr(cpu, end)
    if luck < 0:
        seconds += _spread(workload, shape)
    accelerator = shape.train.instance.accelerator_name or ""
    gpu: float = getattr(workload.gpu_seconds_per_step[accelerator], end)
    if shape.train.count > 1:
        gpu += getattr(workload.communication_seconds_per_step, end)
    samples = shape.ranks * workload.batch_size
    return _Load(samples * seconds, gpu, shape.ranks * workload.bytes_per_batch / 1e9, luck)


def _spread(workload: Workload, shape: ClusterShape) -> float:
    """Return two standard errors of the mean of the samples that are prepared at one time."""
    data = (shape.data.instance.vcpu or 0) * shape.data.count if shape.data else 0
    workers = max(1.0, spare_vcpus(workload, shape.train) + data)
    return 2 * workload.cpu_seconds_per_sample.deviation / math.sqrt(workload.batch_size * workers)


def _step(
    workload: Workload, shape: ClusterShape, load: _Load
) -> tuple[float, Bottleneck, float, Mapping[Bottleneck, float]]:
    """Return seconds, bottleneck, offloaded share, and the seconds that each resource needs."""
    spare = spare_vcpus(workload, shape.train)
    speed = _speed(workload, shape.train.instance, load) * workload.parallel_efficiency
    local = load.cpu_seconds / (spare * speed) if spare else math.inf
    limits = {Bottleneck.ACCELERATOR: load.gpu_seconds, Bottleneck.TRAIN_CPU: local}
    share = 0.0
    if shape.data:
        remote = _remote(workload, shape.train, shape.data, load)
        receive = load.gigabytes * SECONDS_PER_GB / spare if spare else math.inf
        slowest = max(remote.values())
        share = _best_share(local, receive, slowest)
        limits[Bottleneck.TRAIN_CPU] = local * (1 - share) + receive * share if spare else math.inf
        limits.update({each: seconds * share for each, seconds in remote.items()})
    return (*_longest(limits), share, limits)


def _remote(
    workload: Workload, train: GroupShape, data: GroupShape, load: _Load
) -> dict[Bottleneck, float]:
    """Return the seconds that each resource of the data group's way needs for all batches."""
    speed = _speed(workload, data.instance, load) * workload.parallel_efficiency
    work = load.cpu_seconds / speed + load.gigabytes * SECONDS_PER_GB
    gigabits = load.gigabytes * _BITS_PER_BYTE
    return {
        Bottleneck.DATA_CPU: work / (data.count * data.instance.vcpu)
        if data.instance.vcpu
        else math.inf,
        Bottleneck.TRAIN_NETWORK: _transfer(gigabits, train),
        Bottleneck.DATA_NETWORK: _transfer(gigabits, data),
    }


def _transfer(gigabits: float, group: GroupShape) -> float:
    """Return the seconds to move that much through a group; 0 if its network is unknown."""
    each = group.instance.card_gbps
    return gigabits / (group.count * each) if each else 0.0


def _best_share(local: float, receive: float, remote: float) -> float:
    if receive >= local:
        return 0.0
    return min(1.0, local / (local - receive + remote))


def _longest(limits: Mapping[Bottleneck, float]) -> tuple[float, Bottleneck]:
    """Return the longest time and its resource: of equal ones the accelerator, or the last."""
    longest = max(limits.values())
    near = longest * (1 - 1e-9)
    binding = [each for each, seconds in limits.items() if seconds >= near]
    return longest, binding[0] if binding[0] is Bottleneck.ACCELERATOR else binding[-1]


def _speed(workload: Workload, instance: InstanceType, load: _Load) -> float:
    known = workload.cpu_speed.get(family(instance))
    return known if known is not None else UNKNOWN_SPEED**load.speed_exponent
