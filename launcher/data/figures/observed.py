"""What the figures of a job say that a verdict is made of, as verdict.py derives it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from launcher.data.figures.metrics import Figures, Snapshot

#: Fewer batches than this, or seconds, say nothing.
FEWEST_STEPS, SHORTEST = 10, 1.0
#: Workers that use less CPU than this share of their time wait for something else.
_COMPUTING = 0.5


@dataclass(frozen=True, kw_only=True)
class Observed:
    """One job's figures, as the derivation above names them; `judge` makes a verdict of them."""

    total: float  # T
    wait: float  # W
    first_waits: float  # of W, at the starts of later epochs
    batches: float  # B
    seconds: Mapping[str, float]  # w, by host
    work: float  # w, the mean
    cpu: float  # of w, CPU seconds
    starved: float  # of w, seconds without a CPU that was wanted
    blocked: float  # seconds that all workers were held up by their sending
    workers: int  # N, the most at once: at the end of a job they leave
    vcpus: int  # of the hosts that they run on
    bytes_per_second: float  # that arrive at the train hosts
    receiver_cpu: float  # the busiest receiver's share of a CPU
    ahead: float  # batches that the smallest receiver's memory holds

    @property
    def wait_share(self) -> float:
        return self.wait / self.total

    @property
    def busy(self) -> float:
        return min(1.0, self.batches * self.work / (self.workers * self.total))

    @property
    def running(self) -> float:
        """Workers that could be at work at a time: not those that wanted a CPU."""
        return self.workers * (1 - self.starved / self.work)

    @property
    def needed(self) -> float:
        """Workers, with a CPU each, that would leave no wait."""
        work = self.work - self.starved
        return self.batches * work / max(self.total - self.wait, 1e-9)

    @property
    def is_waiting(self) -> bool:
        """Whether workers mostly wait, for disks or a network, and neither use nor want a CPU."""
        return self.cpu < _COMPUTING * (self.work - self.starved)


def observe(snapshot: Snapshot) -> Observed | None:
    """What a snapshot says; None when it is too little to judge by."""
    clocks = [_clock(figures) for figures in _by_rank(snapshot.ranks).values()]
    prepared = sum(host["prepared"] for host in snapshot.hosts.values())
    if not clocks or not prepared:
        return None
    total, wait, first_waits, steps = max(clocks, key=lambda clock: clock[1])
    workers = round(sum(host["most_workers"] for host in snapshot.hosts.values()))
    work = _ratio(snapshot.hosts.values(), "preparing", "prepared")
    if steps < FEWEST_STEPS or total < SHORTEST or not (workers and work):
        return None
    size = _ratio(snapshot.hosts.values(), "bytes", "batches")
    return Observed(
        total=total,
        wait=wait,
        first_waits=first_waits,
        batches=sum(clock[3] for clock in clocks),
        seconds={
            name: host["preparing"] / host["prepared"]
            for name, host in snapshot.hosts.items()
            if host["prepared"]
        },
        work=work,
        cpu=_ratio(snapshot.hosts.values(), "cpu", "prepared"),
        starved=min(_ratio(snapshot.hosts.values(), "starved", "prepared"), 0.99 * work),
        blocked=sum(host["blocked"] for host in snapshot.hosts.values()),
        workers=workers,
        vcpus=round(sum(host["cpus"] for host in snapshot.hosts.values())),
        bytes_per_second=size * sum(clock[3] for clock in clocks) / total,
        receiver_cpu=max((each["cpu"] for each in snapshot.receivers.values()), default=0) / total,
        ahead=min(
            (each["budget"] / max(size, 1.0) for each in snapshot.receivers.values()),
            default=math.inf,
        ),
    )


def _by_rank(streams: Mapping[tuple[str, str], Figures]) -> dict[str, Figures]:
    """Each rank's figures, summed over its streams."""
    ranks: dict[str, Figures] = {}
    for (rank, _), figures in streams.items():
        of_rank = ranks.setdefault(rank, {})
        for name, value in figures.items():
            of_rank[name] = of_rank.get(name, 0.0) + value
        of_rank["streams"] = of_rank.get("streams", 0.0) + 1
    return ranks


def _clock(rank: Figures) -> tuple[float, float, float, float]:
    """T, W, the part of W at the starts of epochs, and steps: without the first batches of all."""
    startup = rank["startup"]
    steps = max(0.0, rank["steps"] - rank["streams"])
    return rank["total"] - startup, rank["wait"] - startup, rank["first_waits"], steps


def _ratio(hosts: Iterable[Figures], above: str, below: str) -> float:
    each = list(hosts)
    return sum(host[above] for host in each) / max(sum(host[below] for host in each), 1e-9)
