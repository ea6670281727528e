"""Faults that are done to a running job, each with the proof that it hit somebody at work.

The proof is what the victim itself was doing (the dataset notes in the worker's own process that it
has begun a sample, which it does for a lease only; the dispatcher lists the leases of a worker that
left), what the kernel says (connections reset, packets held back), or what a rank had received.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from expected import steps_from
from players import Player
from schedule import Fault, Kind
from small_job import LEADER, SmallJob


@dataclass(frozen=True)
class Injury:
    """victim: in words. was_effective: to be asked when the job is over."""

    victim: str
    was_effective: Callable[[], bool]


def stop(job: SmallJob, player: Player, seconds: float) -> None:
    player.send(signal.SIGSTOP)
    while player.is_living and not _is_stopped(player.pid):
        time.sleep(0.001)
    job.later(seconds, lambda: player.send(signal.SIGCONT))


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


# Single workers -----------------------------------------------------------------------------------


def _worker(job: SmallJob, fault: Fault) -> Player | None:
    living = [worker for worker in job.workers if worker.is_living]
    return living[int(fault.pick * len(living))] if living else None


def kill_worker(job: SmallJob, fault: Fault) -> Injury | None:
    if (worker := _worker(job, fault)) is None:
        return None
    worker.send(signal.SIGKILL)
    worker.wait()
    was_busy = job.is_busy(worker)
    return Injury(str(worker), lambda: was_busy or held_leases(job, worker))


def held_leases(job: SmallJob, worker: Player) -> bool:
    return any(event["leases"] for event in job.events("worker_left") if event["pid"] == worker.pid)


def stop_worker(job: SmallJob, fault: Fault) -> Injury | None:
    if (worker := _worker(job, fault)) is None:
        return None
    stop(job, worker, fault.seconds)
    was_busy = job.is_busy(worker)
    return Injury(str(worker), lambda: was_busy)


def slow_worker(job: SmallJob, fault: Fault) -> Injury | None:
    if (worker := _worker(job, fault)) is None:
        return None
    switch = job.folder / "slow" / str(worker.pid)
    switch.touch()
    job.later(fault.seconds + 0.5, lambda: switch.unlink(missing_ok=True))
    return Injury(str(worker), lambda: b"s" in job.work_of(worker))


def drain_worker(job: SmallJob, fault: Fault) -> Injury | None:
    """It is asked to leave, gives back what it has not begun, and is not replaced.

    Local workers are never asked: they are deaf to it, as all services of a train host.
    """
    hosts = job.data_hosts
    staying = [w for w in job.workers if w.host in hosts and w.is_living and not w.is_leaving]
    if len(staying) < 2:
        return None
    choices = [worker for worker in staying if job.is_busy(worker)] or staying
    worker = choices[int(fault.pick * len(choices))]
    worker.is_leaving = True
    was_busy = job.is_busy(worker)
    worker.send(signal.SIGTERM)
    return Injury(str(worker), lambda: was_busy and worker.code == 0)


# Ranks --------------------------------------------------------------------------------------------


def _rank(job: SmallJob, fault: Fault) -> Player | None:
    if job.next_world is not None or not all(rank.is_living for rank in job.ranks):
        return None
    return job.ranks[int(fault.pick * len(job.ranks))]


def kill_rank(job: SmallJob, fault: Fault) -> Injury | None:
    if (rank := _rank(job, fault)) is None:
        return None
    rank.send(signal.SIGKILL)
    rank.wait()
    return _start_anew(job, fault, rank)


def restart_ranks(job: SmallJob, fault: Fault) -> Injury | None:
    if (rank := _rank(job, fault)) is None:
        return None
    return _start_anew(job, fault, rank)


def _start_anew(job: SmallJob, fault: Fault, rank: Player) -> Injury:
    """As torchrun does when one has died: all others are ended, and all are started again."""
    ranks, generation = list(job.ranks), len(job.generations) - 1
    job.next_world = fault.world
    for other in ranks:
        other.send(signal.SIGTERM)
        other.send(signal.SIGCONT)
        other.wait()
    was_reading = _is_in_the_middle(job, generation, ranks.index(rank))
    return Injury(f"{rank}, world {len(ranks)} to {fault.world}", lambda: was_reading)


def stop_rank(job: SmallJob, fault: Fault) -> Injury | None:
    if (rank := _rank(job, fault)) is None:
        return None
    stop(job, rank, fault.seconds)
    was_reading = _is_in_the_middle(job, len(job.generations) - 1, job.ranks.index(rank))
    return Injury(str(rank), lambda: was_reading)


def are_reading(job: SmallJob, host: str) -> bool:
    """Whether a rank of a host is in the middle of its batches."""
    generation = len(job.generations) - 1
    ranks = [number for number, rank in enumerate(job.ranks) if rank.host == host]
    return any(_is_in_the_middle(job, generation, number) for number in ranks)


def _is_in_the_middle(job: SmallJob, generation: int, rank: int) -> bool:
    """Whether a rank has received batches, and more are leased or wait for it."""
    noted = job.received(generation)
    received = noted[rank]
    if received.place is None or not received.batches:
        return False
    steps = steps_from(job.schedule, rank, len(noted), received.place)
    return len(received.batches) <= steps - 2


# The dispatcher, receivers and whole hosts --------------------------------------------------------


def kill_dispatcher(job: SmallJob, fault: Fault) -> Injury | None:
    """Its host starts it again after a while; a worker at work holds a lease of the dead one."""
    if not job.dispatcher.is_living:
        return None
    were_busy = any(job.is_busy(worker) for worker in job.workers if worker.is_living)
    killed = job.dispatcher
    killed.is_condemned = True
    killed.send(signal.SIGKILL)
    killed.wait()
    job.later(fault.seconds, job.start_dispatcher)
    return Injury(str(killed), lambda: were_busy)


def stop_dispatcher(job: SmallJob, fault: Fault) -> Injury | None:
    if not job.dispatcher.is_living:
        return None
    stop(job, job.dispatcher, fault.seconds)
    were_busy = any(job.is_busy(worker) for worker in job.workers if worker.is_living)
    return Injury(str(job.dispatcher), lambda: were_busy)


def stop_receiver(job: SmallJob, fault: Fault) -> Injury | None:
    receiver = job.receivers[int(fault.pick * len(job.receivers))]
    stop(job, receiver, fault.seconds)
    were_reading = are_reading(job, receiver.host)
    return Injury(str(receiver), lambda: were_reading)


def stop_host(job: SmallJob, fault: Fault) -> Injury | None:
    """All its processes, as when its machine is paused."""
    hosts = (*job.data_hosts, *job.train_hosts)
    host = hosts[int(fault.pick * len(hosts))]
    stopped = [player for player in job.players_of(host) if player.is_living]
    for player in stopped:
        stop(job, player, fault.seconds)
    were_busy = are_reading(job, host) or any(
        job.is_busy(worker) for worker in job.workers if worker in stopped
    )
    return Injury(f"{host}, {len(stopped)} processes", lambda: were_busy)


# Data hosts, and the cables of all hosts -------------------------------------------------------


def _data_host(job: SmallJob, fault: Fault) -> str:
    return job.data_hosts[int(fault.pick * len(job.data_hosts))]


def restart_data_host(job: SmallJob, fault: Fault) -> Injury:
    """All its workers are killed, and started again after a while."""
    host = _data_host(job, fault)
    lost = [worker for worker in job.workers if worker.host == host and worker.is_living]
    for worker in lost:
        worker.is_condemned = True
        worker.send(signal.SIGKILL)
        worker.wait()
    were_busy = any(map(job.is_busy, lost))

    started: list[Player] = []
    job.later(
        fault.seconds,
        lambda: started.extend(job.start_worker(host, worker.name) for worker in lost),
    )

    def was_effective() -> bool:
        is_back = any(b">" in job.work_of(worker) for worker in started)
        return is_back and (were_busy or any(held_leases(job, worker) for worker in lost))

    return Injury(host, was_effective)


def add_worker(job: SmallJob, fault: Fault) -> Injury | None:
    host = _data_host(job, fault)
    number = 1 + max(int(worker.name) for worker in job.workers)
    worker = job.start_worker(host, str(number))
    return Injury(str(worker), lambda: b">" in job.work_of(worker))


def _cable(job: SmallJob, fault: Fault) -> str:
    hosts = (*job.data_hosts, *job.train_hosts)
    return hosts[int(fault.pick * len(hosts))]


def _workers_behind(job: SmallJob, host: str) -> list[Player]:
    """Whose way a cable is."""
    return [worker for worker in job.workers if worker.is_living and host in _way(job, worker)]


def _way(job: SmallJob, worker: Player) -> set[str]:
    """The hosts whose cables are between a worker and those that it talks to."""
    if worker.host in job.data_hosts:
        return {worker.host, *job.train_hosts}
    return {worker.host, LEADER} if worker.host != LEADER else set()


def cut_cable(job: SmallJob, fault: Fault) -> Injury:
    host = _cable(job, fault)
    job.cables.cut(host)
    were_busy = any(map(job.is_busy, _workers_behind(job, host)))
    job.later(fault.seconds, lambda: job.cables.mend(host))
    return Injury(host, lambda: were_busy)


def reset_cable(job: SmallJob, fault: Fault) -> Injury:
    host = _cable(job, fault)
    were_busy = any(map(job.is_busy, _workers_behind(job, host)))
    connections = job.cables.reset(host)
    return Injury(f"{host}, {connections} connections", lambda: were_busy and connections > 0)


def slow_cable(job: SmallJob, fault: Fault) -> Injury:
    """A twentieth of what the workers of the host send when nothing hinders them."""
    host, drawn = _cable(job, fault), job.schedule
    bits = 8 * (drawn.sample_bytes + 100) / drawn.sample_seconds * drawn.workers_per_host
    job.cables.slow(host, megabits=max(0.02, bits / 1e6 / 20))
    held_back: list[int] = []

    def mend() -> None:
        held_back.append(job.cables.held_back(host))
        job.cables.mend(host)

    job.later(fault.seconds + 0.5, mend)
    return Injury(host, lambda: sum(held_back) > 0)


# All of them --------------------------------------------------------------------------------------


def commit(job: SmallJob, fault: Fault) -> Injury | None:
    """Do it; None when there is nobody to do it to."""
    return _WAYS[fault.kind](job, fault)


_WAYS: dict[Kind, Callable[[SmallJob, Fault], Injury | None]] = {
    Kind.KILL_WORKER: kill_worker,
    Kind.STOP_WORKER: stop_worker,
    Kind.SLOW_WORKER: slow_worker,
    Kind.ADD_WORKER: add_worker,
    Kind.DRAIN_WORKER: drain_worker,
    Kind.KILL_DISPATCHER: kill_dispatcher,
    Kind.STOP_DISPATCHER: stop_dispatcher,
    Kind.RESTART_DATA_HOST: restart_data_host,
    Kind.CUT_CABLE: cut_cable,
    Kind.RESET_CABLE: reset_cable,
    Kind.SLOW_CABLE: slow_cable,
    Kind.KILL_RANK: kill_rank,
    Kind.STOP_RANK: stop_rank,
    Kind.RESTART_RANKS: restart_ranks,
    Kind.STOP_RECEIVER: stop_receiver,
    Kind.STOP_HOST: stop_host,
}
