"""The list of jobs of a session that keeps them itself, filtered as ListTrainingJobs filters."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launcher.shared.training_job_types import TrainingJobList, TrainingJobSummary


def newest_jobs(
    summaries: Iterable[TrainingJobSummary],
    *,
    NameContains: str | None = None,  # noqa: N803 (AWS)
    StatusEquals: str | None = None,  # noqa: N803 (AWS)
    CreationTimeAfter: datetime | None = None,  # noqa: N803 (AWS)
    CreationTimeBefore: datetime | None = None,  # noqa: N803 (AWS)
    limit: int | None = None,
) -> TrainingJobList:
    """Return the answer of `list_training_jobs` from the summaries of all jobs, in any order.

    A session passes its own arguments on. Jobs that were created at the same time keep the given
    order.
    """
    found = [
        job
        for job in summaries
        if (NameContains or "") in job["TrainingJobName"]
        and StatusEquals in (None, job["TrainingJobStatus"])
        and (CreationTimeAfter is None or job["CreationTime"] > CreationTimeAfter)
        and (CreationTimeBefore is None or job["CreationTime"] < CreationTimeBefore)
    ]
    found.sort(key=lambda job: job["CreationTime"], reverse=True)
    return {"TrainingJobSummaries": found[:limit]}
