"""A discrete-event simulation of the data service: leases, credits and links.

The dispatcher's lease scheduler and the workers' lease states are the product's own; they do no
I/O, and are told the time. Around them, preparing, sending, arriving, reporting and training take
simulated time.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from launcher.client.planning import SECONDS_PER_GB
from launcher.data.dispatcher import LeaseScheduler, ReadSpec
from launcher.data.dispatcher.dispatcher import _TICK
from launcher.data.receiver.progress_reporter import _FREED_SHARE, _REPORT_AT, _REPORT_INTERVAL
from launcher.data.worker import FLOWS_PER_HOST, MAX_FLOWS, LeaseState
from launcher.data.worker.senders import _SHARE
from launcher.data.worker.worker import _EARLY_HEARTBEAT_SECONDS, _HEARTBEAT_SECONDS
from launcher.shared import slab_bytes
from planner_parts.simulated_links import FLOW_RATE, Clock, Links

#: Seconds of a message of the dispatcher, with its handling on both sides.
_MESSAGE = 0.0005
_CPU_PER_BYTE = SECONDS_PER_GB / 1e9


@dataclass(frozen=True, kw_only=True)
class SimulatedDataHost:
    """speed: relative to the CPU of the samples. rate: bytes per second of its network."""

    workers: int
    speed: float = 1.0
    rate: float = math.inf


@dataclass(frozen=True, kw_only=True)
class SimulatedTrainHost:
    """idle: vCPUs that its ranks leave idle, which receive, and on which local workers prepare."""

    ranks: int
    local_workers: int = 0
    idle: float = math.inf
    speed: float = 1.0
    rate: float = math.inf


@dataclass(frozen=True, kw_only=True)
class SimulatedJob:
    """What is simulated.

    sample_seconds, deviation: of one sample's preparation; samples are log-normal. train_seconds:
    of a step of all ranks that have their batches. batch_bytes: of one rank. batch_seconds: of the
    batch of a step, instead of drawn ones. are_cpus_counted: whether sending and receiving take the
    time of CPUs, which workers that sleep do not need.
    """

    data_hosts: tuple[SimulatedDataHost, ...]
    train_hosts: tuple[SimulatedTrainHost, ...]
    batch_size: int
    sample_seconds: float
    deviation: float = 0.0
    batch_bytes: float
    train_seconds: float
    prefetch_bytes: int
    batch_seconds: Callable[[int], float] | None = None
    are_cpus_counted: bool = True

    @property
    def ranks(self) -> int:
        return sum(host.ranks for host in self.train_hosts)


@dataclass(frozen=True, kw_only=True)
class SimulatedRun:
    """step_seconds: mean of the measured steps. offloaded: share of their batches that the data
    group prepared. late: batches that were leased twice."""

    step_seconds: float
    offloaded: float
    late: int


def simulate(job: SimulatedJob, *, warm: int, steps: int, seed: int) -> SimulatedRun:
    """Simulate a job, and measure some steps after the first ones."""
    service = _Service(job, warm + steps + 10_000, seed)
    ended = service.ranks.ended
    service.clock.run_until(lambda: len(ended) >= warm)
    first, before = len(service.arrivals), service.prepared.copy()
    service.clock.run_until(lambda: len(ended) >= warm + steps)
    remote, local = service.prepared - before
    return SimulatedRun(
        # Batches that were prepared before may hide that there are too few, or more may be prepared
        # for later: what lasts is the slower of the two.
        step_seconds=max(_pace(ended[warm:]), _pace(service.arrivals[first:]) * job.ranks),
        offloaded=float(remote / (remote + local)),
        late=service.scheduler.late_leases,
    )


def _pace(times: list[float]) -> float:
    """Return the seconds between events, by a fitted line: they come in clumps."""
    return float(np.polyfit(np.arange(len(times)), times, 1)[0])


class _Service:
    """All parts of a job. prepared: batches that data hosts and that local workers prepared."""

    def __init__(self, job: SimulatedJob, epoch: int, seed: int) -> None:
        self.job = job
        self.clock = Clock()
        self.scheduler = LeaseScheduler(job.prefetch_bytes)
        self.costs = _SampleCosts(job, seed)
        self.prepared = np.zeros(2)
        self.arrivals: list[float] = []
        data = {f"data-{n}": host for n, host in enumerate(job.data_hosts)}
        train = {f"train-{n}": host for n, host in enumerate(job.train_hosts)}
        rates = {name: host.rate for name, host in data.items()}
        # A receiver takes no more than its host's idle vCPUs can receive.
        rates |= {name: min(host.rate, host.idle / _CPU_PER_BYTE) for name, host in train.items()}
        self.links = Links(self.clock, rates)
        self.ranks = _Ranks(self)
        self.receivers = {name: _Receiver(self, name, host) for name, host in train.items()}
        self.workers: dict[str, _Worker] = {}
        for name, each in data.items():
            self._hire(name, each.workers, each.speed, None)
        for name, host in train.items():
            self._hire(name, host.local_workers, host.speed, self.receivers[name])
        for receiver in self.receivers.values():
            receiver.open(epoch)
        self._is_assigning = False
        self._tick()

    def _hire(self, host: str, count: int, speed: float, local: _Receiver | None) -> None:
        for number in range(count):
            name = f"{host}/{number}/{number}"
            self.workers[name] = _Worker(self, name, speed, local, count)
            self.scheduler.add_worker(name, 0.0, receiver=host if local else None)

    def _tick(self) -> None:
        """The periodic checks of the dispatcher."""
        self.scheduler.poll(self.clock.now)
        self.assign()
        self.clock.after(_TICK, self._tick)

    def wake(self) -> None:
        """Assign leases once for all messages that arrive at one time."""
        if not self._is_assigning:
            self._is_assigning = True
            self.clock.after(0.0, self.assign)

    def assign(self) -> None:
        self._is_assigning = False
        for each in self.scheduler.pop_revoked():
            self.workers[each.worker].revoke(each.run, each.steps)
        for each in self.scheduler.assign(self.clock.now):
            worker = self.workers[each.worker]
            leases = [(each.run, step) for step in each.steps]
            self.clock.after(_MESSAGE, lambda w=worker, found=leases: w.lease(found))


class _SampleCosts:
    """CPU seconds of each batch, the same for every worker that prepares it."""

    def __init__(self, job: SimulatedJob, seed: int) -> None:
        self._job = job
        self._random = np.random.default_rng(seed)
        self._known: dict[tuple[str, int], float] = {}
        spread = math.log1p((job.deviation / job.sample_seconds) ** 2)
        self._sigma = math.sqrt(spread)
        self._mu = math.log(job.sample_seconds) - spread / 2

    def __call__(self, lease: tuple[str, int]) -> float:
        if self._job.batch_seconds is not None:
            return self._job.batch_seconds(lease[1])
        if not self._sigma:
            return self._job.sample_seconds * self._job.batch_size
        if lease not in self._known:
            drawn = self._random.lognormal(self._mu, self._sigma, self._job.batch_size)
            self._known[lease] = float(drawn.sum())
        return self._known[lease]


class _Worker:
    """Prepares one batch while it sends another; one more may wait in between."""

    def __init__(
        self, service: _Service, name: str, speed: float, local: _Receiver | None, count: int
    ) -> None:
        self._service, self._clock = service, service.clock
        self._name, self._host = name, name.partition("/")[0]
        self._speed, self._local = speed, local
        self._state = LeaseState(name, 0)
        self._leased: deque[tuple[str, int]] = deque()
        self._waiting: tuple[str, int] | None = None
        self._blocked: tuple[str, int] | None = None  # prepared, but one waits already
        self._is_preparing = self._is_sending = False
        self._debt = 0.0  # CPU seconds of sending, which the next preparation takes longer
        parts = min(MAX_FLOWS, FLOWS_PER_HOST // count, int(service.job.batch_bytes // _SHARE))
        self._limit = FLOW_RATE * max(1, parts) if math.isfinite(_rate_of(service)) else math.inf
        self._beat_at = 0.0
        self._beats = 0
        self._clock.after(_HEARTBEAT_SECONDS, lambda: self._beat(0))

    def lease(self, leases: list[tuple[str, int]]) -> None:
        for run, step in leases:
            self._state.define(run)
            self._state.lease(run, [step])
        self._leased.extend(leases)
        self._prepare()

    def revoke(self, run: str, steps: tuple[int, ...]) -> None:
        self._state.revoke(run, steps)

    def _prepare(self) -> None:
        if self._is_preparing or self._blocked:
            return
        while self._leased:
            lease = self._leased.popleft()
            if self._state.start(*lease):
                break
        else:
            return
        self._is_preparing = True
        seconds = self._service.costs(lease) / self._speed
        debt, self._debt = self._debt, 0.0
        if self._local:
            debt = self._local.take_debt()
        self._clock.after(seconds + debt, lambda: self._prepared(lease, seconds + debt))

    def _prepared(self, lease: tuple[str, int], seconds: float) -> None:
        self._is_preparing = False
        self._state.record_seconds("prepare", seconds)
        self._blocked = lease
        self._pass_on()

    def _pass_on(self) -> None:
        """Send what waits, and let what is prepared wait."""
        if self._waiting is None and self._blocked is not None:
            self._waiting, self._blocked = self._blocked, None
        if self._waiting is not None and not self._is_sending:
            lease, self._waiting = self._waiting, None
            self._is_sending = True
            self._send(lease)
            self._pass_on()
        self._prepare()

    def _send(self, lease: tuple[str, int]) -> None:
        since = self._clock.now
        if self._local:
            self._clock.after(0.0, lambda: self._sent(lease, self._local, since))
            return
        receiver = self._service.ranks.receiver_of(lease)
        if self._service.job.are_cpus_counted:
            self._debt += self._service.job.batch_bytes * _CPU_PER_BYTE
        self._service.links.transfer(
            self._service.job.batch_bytes,
            (self._host, receiver.name),
            self._limit,
            lambda: self._sent(lease, receiver, since),
        )

    def _sent(self, lease: tuple[str, int], receiver: _Receiver, since: float) -> None:
        self._is_sending = False
        self._state.record_seconds("send", self._clock.now - since)
        self._state.finish(*lease)
        receiver.arrived(lease, self._name, is_local=self._local is not None)
        if self._state.has_changes:
            early = self._beat_at + _EARLY_HEARTBEAT_SECONDS
            number = self._beats
            self._clock.after(max(0.0, early - self._clock.now), lambda: self._beat(number))
        self._pass_on()

    def _beat(self, number: int) -> None:
        if number != self._beats:
            return  # there was one since
        self._beats += 1
        self._beat_at = self._clock.now
        beat = self._state.heartbeat()
        done = [(run, step) for run, steps in beat.done.items() for step in steps]
        self._clock.after(_MESSAGE, lambda: self._beaten(beat.seconds, done))
        following = self._beats
        self._clock.after(_HEARTBEAT_SECONDS, lambda: self._beat(following))

    def _beaten(self, seconds: float, done: list[tuple[str, int]]) -> None:
        scheduler = self._service.scheduler
        scheduler.record_heartbeat(self._name, self._clock.now, seconds=seconds, done=done)
        self._service.wake()


def _rate_of(service: _Service) -> float:
    """The fastest network of a host: infinite on one machine, where flows have no limit."""
    hosts = (*service.job.data_hosts, *service.job.train_hosts)
    return max(host.rate for host in hosts)


class _Receiver:
    """Holds the batches of one train host, and reports them together."""

    def __init__(self, service: _Service, name: str, host: SimulatedTrainHost) -> None:
        self._service, self._clock = service, service.clock
        self.name, self._host = name, host
        self._debt, self._debt_at = 0.0, 0.0
        self._seen: set[tuple[str, int]] = set()
        self._arrivals: list[tuple[str, int, str]] = []
        self._consumed: list[tuple[str, int]] = []
        self._reported_at = -math.inf
        self._reports = 0
        self._is_planned = False
        self._has_grown = True  # the size of batches is not known before the first

    def open(self, steps: int) -> None:
        for _ in range(self._host.ranks):
            run = self._service.ranks.join(self)
            spec = ReadSpec(name=run, receiver=self.name, rank=int(run), steps=steps)
            self._service.scheduler.open_run(spec, 0.0)

    def take_debt(self) -> float:
        """Return the CPU seconds of receiving that local workers have yet to make room for."""
        if not self._service.job.are_cpus_counted:
            return 0.0
        self._pay()
        debt, self._debt = self._debt, 0.0
        return debt

    def _pay(self) -> None:
        """Let the CPUs that no local worker uses receive."""
        free = self._host.idle - self._host.local_workers
        seconds, self._debt_at = self._clock.now - self._debt_at, self._clock.now
        self._debt = max(0.0, self._debt - free * seconds) if seconds else self._debt

    def arrived(self, lease: tuple[str, int], worker: str, *, is_local: bool) -> None:
        if not is_local:
            self._pay()
            self._debt += self._service.job.batch_bytes * _CPU_PER_BYTE
        if lease in self._seen or self._service.ranks.has_taken(lease):
            return  # a second copy
        self._seen.add(lease)
        self._service.prepared += (not is_local, is_local)
        self._service.arrivals.append(self._clock.now)
        self._arrivals.append((*lease, worker))
        self._notify()
        self._service.ranks.take()

    def pop(self, lease: tuple[str, int]) -> bool:
        """Let a rank take a batch, if it is there."""
        if lease not in self._seen:
            return False
        self._seen.remove(lease)
        self._consumed.append(lease)
        self._notify()
        return True

    def _notify(self) -> None:
        job = self._service.job
        is_much = len(self._arrivals) + len(self._consumed) >= _REPORT_AT
        is_freed = len(self._consumed) * job.batch_bytes >= _FREED_SHARE * job.prefetch_bytes
        if is_much or is_freed or self._has_grown:
            self._has_grown = False
            self._report(self._reports)
        elif not self._is_planned:
            self._is_planned = True
            number, due = self._reports, self._reported_at + _REPORT_INTERVAL
            self._clock.after(max(0.0, due - self._clock.now), lambda: self._report(number))

    def _report(self, number: int) -> None:
        if number != self._reports:
            return
        self._reports += 1
        self._reported_at, self._is_planned = self._clock.now, False
        arrivals, self._arrivals = self._arrivals, []
        consumed, self._consumed = self._consumed, []
        self._clock.after(_MESSAGE, lambda: self._reported(arrivals, consumed))

    def _reported(
        self, arrivals: list[tuple[str, int, str]], consumed: list[tuple[str, int]]
    ) -> None:
        scheduler, now = self._service.scheduler, self._clock.now
        for run, step, worker in arrivals:
            size = slab_bytes(math.ceil(self._service.job.batch_bytes))
            scheduler.record_arrival(run, step, worker, size, now)
        for run, step in consumed:
            scheduler.record_consumed(run, step, now)
        self._service.wake()


@dataclass
class _Ranks:
    """All ranks, which train together: a step begins when each has its batch."""

    service: _Service
    ended: list[float] = field(default_factory=list)
    _receivers: list[_Receiver] = field(default_factory=list)
    _missing: set[int] = field(default_factory=set)
    _is_training: bool = False

    @property
    def steps(self) -> int:
        return len(self.ended)

    def join(self, receiver: _Receiver) -> str:
        self._receivers.append(receiver)
        self._missing.add(len(self._receivers) - 1)
        return str(len(self._receivers) - 1)

    def receiver_of(self, lease: tuple[str, int]) -> _Receiver:
        return self._receivers[int(lease[0])]

    def has_taken(self, lease: tuple[str, int]) -> bool:
        run, step = lease
        return step < self.steps or (step == self.steps and int(run) not in self._missing)

    def take(self) -> None:
        """Take what has arrived; begin the step when no rank waits any more."""
        if self._is_training:
            return
        self._missing -= {
            rank for rank in self._missing if self._receivers[rank].pop((str(rank), self.steps))
        }
        if not self._missing:
            self._is_training = True
            self.service.clock.after(self.service.job.train_seconds, self._trained)

    def _trained(self) -> None:
        self._is_training = False
        self.ended.append(self.service.clock.now)
        self._missing = set(range(len(self._receivers)))
        self.take()
