"""What happens to single workers."""

from __future__ import annotations

import signal

from injuries import Injury, stop
from players import Player
from schedule import Fault
from small_job import SmallJob


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
