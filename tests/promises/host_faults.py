"""What happens to the dispatcher, to data hosts, and to the cables of all hosts."""

from __future__ import annotations

import signal

from injuries import Injury, stop
from players import Player
from rank_faults import are_reading
from schedule import Fault
from small_job import LEADER, SmallJob
from worker_faults import held_leases


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
