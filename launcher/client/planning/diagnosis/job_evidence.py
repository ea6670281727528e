"""The evidence of a diagnosis: what the hosts, ranks and data workers of a job were seen to do."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from launcher.client.planning.diagnosis.mean_step_time import MeanStepTime
from launcher.shared import Bound


@dataclass(frozen=True, kw_only=True)
class UsePoint:
    """The use of one host at a time: shares from 0 to 1, of its `cpus` and accelerators."""

    time: float
    cpu: float | None = None
    gpu: float | None = None
    cpus: int | None = None


@dataclass(frozen=True, kw_only=True)
class HostUse:
    """Mean use of one host while the job trained.

    cpu, gpu: shares from 0 to 1 of all its CPUs and of all its accelerators; None if unknown.
    points: number of values behind the means. seconds: time that they cover.
    """

    host: str
    cpu: float | None
    gpu: float | None
    points: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class GroupUse:
    """The hosts of one group, and their use.

    trains: False for a group that only prepares data, or runs programs beside the training.
    vcpus: of one host; None if unknown. hosts: those with figures. count: all of them.
    """

    name: str
    instance_type: str
    count: int
    trains: bool
    vcpus: int | None
    hosts: tuple[HostUse, ...]

    @property
    def cpu(self) -> float | None:
        """Mean share of the hosts' CPUs in use; None if unknown."""
        return _mean(self.hosts, lambda each: each.cpu)

    @property
    def gpu(self) -> float | None:
        """Mean share of the hosts' accelerators in use; None if unknown."""
        return _mean(self.hosts, lambda each: each.gpu)

    @property
    def points(self) -> int:
        """Number of values of the host that has fewest; 0 without any host."""
        return min((each.points for each in self.hosts), default=0)

    @property
    def seconds(self) -> float:
        """Time that the figures cover."""
        return max((each.seconds for each in self.hosts), default=0.0)


@dataclass(frozen=True, kw_only=True)
class RankTimes:
    """Mean seconds of the measured steps of one rank of a task.

    communication: waits for other ranks; None where they cannot be separated from computing.
    steps: number of measured steps.
    """

    rank: int
    host: str
    data_wait: float
    compute: float
    communication: float | None
    steps: int

    @property
    def own(self) -> float:
        """Seconds that do not depend on other ranks."""
        return self.data_wait + self.compute

    @property
    def step(self) -> float:
        """Seconds of a step."""
        return self.own + (self.communication or 0.0)


@dataclass(frozen=True, kw_only=True)
class DataWait:
    """The time that the training waited for its batches, and the job's own verdict on it.

    share: of the time inside epochs, 0 to 1, with `steps` and `seconds` behind it.
    minutes: number of CloudWatch's values behind it; 0 if it is from the logs.
    bound: None without a verdict. more: vCPU or workers to add, negative for surplus ones.
    is_waiting: True if those who prepare batches mostly wait for disks or a network instead of a
    CPU; None if unmeasured.
    slowest: the data host whose batches take longest. bytes_per_batch: 0 if unknown.
    """

    share: float
    steps: int
    seconds: float
    bound: Bound | None = None
    more: int | None = None
    margin: float = 0.0
    text: str = ""
    is_waiting: bool | None = None
    slowest: str | None = None
    bytes_per_batch: float = 0.0
    minutes: int = 0

    @property
    def basis(self) -> str:
        """The amount of training behind the share: "200 steps"."""
        return f"{self.minutes} minutes" if self.minutes else f"{self.steps} steps"


@dataclass(frozen=True, kw_only=True)
class JobEvidence:
    """All that is known about the use of a job's machines and the time of its steps.

    read_on: the day on which it was read. bills: whether its hosts cost money.
    rank_count: ranks that reported anything.
    data: None if the job did not read with launcher.data.
    step, samples_per_step: of all ranks; None if unknown. input_modes: of its channels.
    measured: the use of each host over time, where CloudWatch has it.
    sources: where the figures come from.
    missing: what could not be read, and why.
    """

    job_name: str
    status: str
    region: str
    read_on: date
    bills: bool
    groups: tuple[GroupUse, ...]
    ranks: tuple[RankTimes, ...] = ()
    rank_count: int = 0
    data: DataWait | None = None
    step: MeanStepTime | None = None
    samples_per_step: float | None = None
    input_modes: tuple[str, ...] = ()
    measured: Mapping[str, Sequence[UsePoint]] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def step_seconds(self) -> float | None:
        """Mean seconds of a step; None if unknown."""
        return None if self.step is None else self.step.mean

    @property
    def train(self) -> tuple[GroupUse, ...]:
        """The groups that train."""
        return tuple(group for group in self.groups if group.trains)

    @property
    def feeds(self) -> tuple[GroupUse, ...]:
        """The groups that do not train."""
        return tuple(group for group in self.groups if not group.trains)


def mean_of(groups: Sequence[GroupUse], part: Callable[[GroupUse], float | None]) -> float | None:
    """Return the mean of a figure over groups, by their numbers of hosts; None if unknown."""
    known = [(value, group.count) for group in groups if (value := part(group)) is not None]
    count = sum(hosts for _, hosts in known)
    return sum(value * hosts for value, hosts in known) / count if count else None


def _mean(hosts: Sequence[HostUse], part: Callable[[HostUse], float | None]) -> float | None:
    known = [value for each in hosts if (value := part(each)) is not None]
    return statistics.fmean(known) if known else None
