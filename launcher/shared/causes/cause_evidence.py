"""The evidence on a job: what its hosts, ranks and data workers were seen to do."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from launcher.shared.causes.cause import BUSY_CPU, FEWEST_POINTS, FEWEST_STEPS, Cause, WaitKind


@dataclass(frozen=True, kw_only=True)
class HostUse:
    """Mean use of one host while the job trained.

    cpu, gpu: shares from 0 to 1 of all its CPUs and of all its accelerators; None if unknown.
    each_gpu: the share of each accelerator, where there are several. machine: shares
    of its machine's CPUs that all processes, and those of this host, use; None if unknown.
    points: number of values behind the means. seconds: time that they cover.
    """

    host: str
    cpu: float | None
    gpu: float | None
    points: int
    seconds: float
    each_gpu: tuple[float, ...] = ()
    machine: tuple[float, float] | None = None


@dataclass(frozen=True, kw_only=True)
class GroupUse:
    """The hosts of one group, and their use.

    trains: False for a group that only prepares data, or runs programs beside the training.
    vcpus: of one host; None if unknown. hosts: those with figures. count: all of them.
    is_accelerated: False if its hosts are known to have no accelerators.
    """

    name: str
    instance_type: str
    count: int
    trains: bool
    vcpus: int | None
    hosts: tuple[HostUse, ...]
    is_accelerated: bool = True

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


@dataclass(frozen=True, slots=True)
class Doing:
    """Seconds of a rank's phase ("data", "own", "late", "between"), by kind of wait and place.

    kind: a WaitKind's value, or "running". where: the user's function; "" if none was seen.
    """

    phase: str
    kind: str
    where: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class PassTimes:
    """One rank's pass over a stream, from all of its steps.

    first: the wait for its first batch. late_own: what late parts of the script's own took longer
    than usual. between: seconds since the pass before it.
    garbage: seconds of the garbage collector. quantiles: "p50" to "max", of whole steps.
    """

    stream: str
    steps: int
    seconds: float
    first: float
    late_own: float
    between: float
    garbage: float
    quantiles: Mapping[str, float]
    doing: tuple[Doing, ...]

    @classmethod
    def of_event(cls, fields: Mapping[str, Any]) -> PassTimes:
        """Return the pass of a data_epoch event; raises one of FIELD_ERRORS for older ones."""
        return cls(
            stream=str(fields["stream"]),
            steps=int(fields["steps"]),
            seconds=float(fields["total_seconds"]),
            first=float(fields["waits"]["first"]),
            late_own=float(fields["own"]["late"]),
            between=float(fields["between_seconds"]),
            garbage=float(fields["garbage_seconds"]),
            quantiles={name: float(each) for name, each in fields["step"].items()},
            doing=tuple(Doing(*each) for each in fields["doing"]),
        )


@dataclass(frozen=True, kw_only=True)
class DataWait:
    """The time that the training waited for its batches, why, and what would remove it.

    share: of the time inside epochs, 0 to 1, with `steps` and `seconds` behind it.
    bound: None without a known reason. busy: share of their time that workers spent preparing.
    more: workers or vCPU to add, negative for surplus ones; None if their number is not the
    bottleneck. margin: how far the deciding figure was beyond its limit, as a share of the limit,
    or of the way to 1 for the use of workers; 0 without a cause. text: the job's closing sentence.
    is_waiting: True if those who prepare batches mostly wait for disks or a network instead of a
    CPU; None if unmeasured. slowest: the data host whose batches take longest.
    kind: what those who prepare mostly wait for, where the kernel tells it.
    bytes_per_batch: 0 if unknown. minutes: number of CloudWatch's values behind the share; 0 if it
    is from the logs.
    """

    share: float
    steps: int = 0
    seconds: float = 0.0
    bound: Cause | None = None
    busy: float = 0.0
    more: int | None = None
    margin: float = 0.0
    text: str = ""
    is_waiting: bool | None = None
    slowest: str | None = None
    kind: WaitKind | None = None
    bytes_per_batch: float = 0.0
    minutes: int = 0

    @classmethod
    def of_event(cls, fields: Mapping[str, Any]) -> DataWait:
        """Return the wait of a data_verdict event; raises one of FIELD_ERRORS for another one."""
        more = fields["more"]
        return cls(
            share=float(fields["wait_share"]),
            bound=Cause(fields["bound"]),
            busy=float(fields["busy"]),
            more=None if more is None else int(more),
            margin=float(fields.get("margin") or 0.0),
            text=str(fields["text"]),
            is_waiting=fields.get("is_waiting"),
        )

    def fields(self) -> dict[str, object]:
        """Return the fields of the data_verdict event."""
        return {
            "bound": self.bound and self.bound.value,
            "wait_share": self.share,
            "busy": self.busy,
            "more": self.more,
            "margin": self.margin,
            "text": self.text,
            "is_waiting": self.is_waiting,
        }

    @property
    def basis(self) -> str:
        """The amount of training behind the share: "200 steps"."""
        return f"{self.minutes} minutes" if self.minutes else f"{self.steps} steps"

    @property
    def is_known(self) -> bool:
        """True if enough steps were measured."""
        is_long = self.steps >= FEWEST_STEPS or self.minutes >= FEWEST_POINTS
        return is_long and self.bound is not Cause.TOO_SHORT


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Known figures of the use of a job's machines and the time of its steps.

    ranks: those of a task. rank_count: ranks that reported anything.
    data: None if the job did not read with launcher.data. input_modes: of its channels.
    passes: of the rank that read for longest. steps_by_rank: of each rank that read.
    hang: the report of one. shares_machine: its hosts are processes of one machine.
    """

    job_name: str
    groups: tuple[GroupUse, ...] = ()
    ranks: tuple[RankTimes, ...] = ()
    rank_count: int = 0
    data: DataWait | None = None
    input_modes: tuple[str, ...] = ()
    passes: tuple[PassTimes, ...] = ()
    steps_by_rank: Mapping[str, int] = field(default_factory=dict)
    hang: str = ""
    shares_machine: bool = False

    @property
    def train(self) -> tuple[GroupUse, ...]:
        """The groups that train."""
        return tuple(group for group in self.groups if group.trains)

    @property
    def feeds(self) -> tuple[GroupUse, ...]:
        """The groups that do not train."""
        return tuple(group for group in self.groups if not group.trains)

    @property
    def other_work(self) -> float | None:
        """Share of the hosts' CPUs that other work uses, if all CPUs are busy; None otherwise.

        Hosts of one machine share its CPUs, so what the others of the job use is no other work.
        """
        hosts = [
            host.machine
            for group in self.groups
            for host in group.hosts
            if host.machine is not None
        ]
        if not hosts:
            return None
        if self.shares_machine:
            hosts = [(max(machine for machine, _ in hosts), sum(own for _, own in hosts))]
        busy = [(machine - own) for machine, own in hosts if machine >= BUSY_CPU]
        return max(busy, default=None)

    @property
    def known_wait(self) -> DataWait | None:
        """The wait for data if enough steps were measured."""
        return self.data if self.data is not None and self.data.is_known else None


def has_use(groups: Sequence[GroupUse]) -> bool:
    """Return whether the hosts of groups have figures enough to judge by."""
    return bool(groups) and all(group.points >= FEWEST_POINTS for group in groups)


def mean_of(groups: Sequence[GroupUse], part: Callable[[GroupUse], float | None]) -> float | None:
    """Return the mean of a figure over groups, by their numbers of hosts; None if unknown."""
    known = [(value, group.count) for group in groups if (value := part(group)) is not None]
    count = sum(hosts for _, hosts in known)
    return sum(value * hosts for value, hosts in known) / count if count else None


def _mean(hosts: Sequence[HostUse], part: Callable[[HostUse], float | None]) -> float | None:
    known = [value for each in hosts if (value := part(each)) is not None]
    return statistics.fmean(known) if known else None
