"""What happens to ranks."""

from __future__ import annotations

import signal

from expected import steps_from
from injuries import Injury, stop
from players import Player
from schedule import Fault
from small_job import SmallJob


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
