"""Inputs of the verdict on a job, computed from the metrics of its data service."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from launcher.shared.causes.cause import COMPUTING, FEWEST_STEPS, SHORTEST, WaitKind

#: Metrics of one host, rank or receiver, by name.
Figures = Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class ObservedRates:
    """Metrics of one job, named as in the derivation in data_wait.py."""

    total: float  # T
    wait: float  # W
    first_waits: float  # part of W at the starts of later epochs
    batches: float  # B
    seconds: Mapping[str, float]  # w, by host
    work: float  # w, the mean
    cpu: float  # part of w in CPU seconds
    starved: float  # part of w in seconds of waiting for a CPU
    blocked: float  # seconds blocked by sending, summed over all workers
    workers: int  # N, the most at once, because they leave at the end of a job
    vcpus: int  # of the workers' hosts
    bytes_per_batch: float  # 0 if unknown
    bytes_per_second: float  # received by the train hosts
    receiver_cpu: float  # CPU use of the busiest receiver, as a share of one CPU
    ahead: float  # batches that fit into the smallest receiver's memory
    longest: Mapping[str, float] = field(default_factory=dict)  # seconds of a batch, by host
    steps: float = math.inf  # of the rank that waited most
    kinds: Mapping[WaitKind, float] = field(default_factory=dict)  # seconds of waits in preparing
    host_busy: Mapping[str, float] = field(default_factory=dict)  # share of time, by host
    filled: float = 0.0  # largest part of a receiver's memory that was ever in use

    @property
    def wait_share(self) -> float:
        """Share of the time inside epochs that was spent waiting, W / T."""
        return self.wait / self.total

    @property
    def busy(self) -> float:
        """Share of their time that workers spent preparing, B w / (N T), at most 1."""
        return min(1.0, self.batches * self.work / (self.workers * self.total))

    @property
    def is_short(self) -> bool:
        """True if there is too little to judge by."""
        return self.steps < FEWEST_STEPS or self.total < SHORTEST

    @property
    def sending(self) -> float:
        """Share of their time that workers could not prepare because a batch was still unsent."""
        return min(1.0, self.blocked / (self.workers * self.total))

    @property
    def running(self) -> float:
        """Workers that could run at a time: all but those that were waiting for a CPU."""
        return self.workers * (1 - self.starved / self.work)

    @property
    def needed(self) -> float:
        """Workers, with a CPU each, that would remove all waits."""
        work = self.work - self.starved
        return self.batches * work / max(self.total - self.wait, 1e-9)

    @property
    def kind(self) -> WaitKind | None:
        """The kind of wait that takes most of a worker's time, if one does."""
        most = max(self.kinds, key=lambda kind: self.kinds[kind], default=WaitKind.OTHER)
        is_most = self.kinds.get(most, 0.0) >= COMPUTING * (self.work - self.starved)
        return most if is_most and most is not WaitKind.OTHER else None

    @property
    def is_waiting(self) -> bool:
        """True if workers mostly wait for disks or a network, and not for a CPU."""
        return self.cpu < COMPUTING * (self.work - self.starved)


def observe(
    *,
    hosts: Mapping[str, Figures],
    ranks: Mapping[tuple[str, str], Figures],
    receivers: Mapping[str, Figures],
) -> ObservedRates | None:
    """Compute the inputs from the metrics of hosts, of (rank, stream)s and of receivers.

    None when no rank has read or no worker has prepared anything. Raises KeyError for metrics of
    another version.
    """
    clocks = [_clock(figures) for figures in _by_rank(ranks).values()]
    prepared = sum(host["prepared"] for host in hosts.values())
    if not clocks or not prepared:
        return None
    total, wait, first_waits, steps = max(clocks, key=lambda clock: clock[1])
    workers = round(sum(host["most_workers"] for host in hosts.values()))
    work = _ratio(hosts.values(), "preparing", "prepared")
    if not (workers and work and total > 0):
        return None
    size = _ratio(hosts.values(), "bytes", "batches")
    return ObservedRates(
        total=total,
        wait=wait,
        first_waits=first_waits,
        batches=sum(clock[3] for clock in clocks),
        seconds={
            name: host["preparing"] / host["prepared"]
            for name, host in hosts.items()
            if host["prepared"]
        },
        work=work,
        cpu=_ratio(hosts.values(), "cpu", "prepared"),
        starved=min(_ratio(hosts.values(), "starved", "prepared"), 0.99 * work),
        blocked=sum(host["blocked"] for host in hosts.values()),
        workers=workers,
        vcpus=round(sum(host["cpus"] for host in hosts.values())),
        bytes_per_batch=size,
        bytes_per_second=size * sum(clock[3] for clock in clocks) / total,
        receiver_cpu=max((each["cpu"] for each in receivers.values()), default=0) / total,
        ahead=min(
            (each["budget"] / max(size, 1.0) for each in receivers.values()), default=math.inf
        ),
        longest={name: host["longest"] for name, host in hosts.items() if "longest" in host},
        steps=steps,
        host_busy={
            name: host["preparing"] / host["elapsed"]
            for name, host in hosts.items()
            if host.get("elapsed")
        },
        kinds={
            kind: sum(host.get(kind, 0.0) for host in hosts.values()) / prepared
            for kind in WaitKind
        },
        filled=max(
            (each.get("high", 0.0) / each["budget"] for each in receivers.values()), default=0
        ),
    )


def _by_rank(streams: Mapping[tuple[str, str], Figures]) -> dict[str, dict[str, float]]:
    """Return each rank's metrics, summed over its streams."""
    ranks: dict[str, dict[str, float]] = {}
    for (rank, _), figures in streams.items():
        of_rank = ranks.setdefault(rank, {})
        for name, value in figures.items():
            of_rank[name] = of_rank.get(name, 0.0) + value
        of_rank["streams"] = of_rank.get("streams", 0.0) + 1
    return ranks


def _clock(rank: Figures) -> tuple[float, float, float, float]:
    """Return T, W, the part of W at the starts of epochs, and steps, without each first batch."""
    startup = rank["startup"]
    steps = max(0.0, rank["steps"] - rank["streams"])
    return rank["total"] - startup, rank["wait"] - startup, rank["first_waits"], steps


def _ratio(hosts: Iterable[Figures], above: str, below: str) -> float:
    each = list(hosts)
    return sum(host[above] for host in each) / max(sum(host[below] for host in each), 1e-9)
