"""Whether a schedule's way to read made a difference to what happened."""

from __future__ import annotations

from expected import epochs_of
from received import Received
from schedule import Reading, Schedule
from small_job import SmallJob


def was_seen(job: SmallJob) -> bool:
    """To be asked when the job is over."""
    if job.schedule.reading is Reading.LOCAL_WORKERS:
        local = (worker for worker in job.workers if worker.host in job.train_hosts)
        return any(b">" in job.work_of(worker) for worker in local)
    generations = [job.received(number) for number in range(len(job.generations))]
    if job.schedule.reading is Reading.SKIPPING:
        counted = (epoch for ranks in generations for rank in ranks for epoch in rank.epochs)
        return any(epoch["skipped"] for epoch in counted)
    if job.schedule.reading is Reading.ANY_ORDER:
        return any(_came_in_another_order(job.schedule, ranks) for ranks in generations)
    return True  # the verdict expects other samples, or in other places


def _came_in_another_order(schedule: Schedule, ranks: list[Received]) -> bool:
    for number, rank in enumerate(ranks):
        epochs = epochs_of(schedule, number, len(ranks), rank.place) if rank.place else ()
        expected = [batch.ids for epoch in epochs for batch in epoch.batches]
        came = [ids for ids, _ in rank.batches]
        if came != expected[: len(came)]:
            return True
    return False
