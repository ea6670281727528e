"""The list of jobs of a session that keeps them itself, filtered as ListTrainingJobs filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from launcher.shared import TrainingJobList, TrainingJobSummary

_SUMMARY_FIELDS = (
    "TrainingJobName",
    "TrainingJobArn",
    "CreationTime",
    "TrainingEndTime",
    "LastModifiedTime",
    "TrainingJobStatus",
    "SecondaryStatus",
)


def summarize_job(description: Mapping[str, Any]) -> TrainingJobSummary:
    """Return the entry in ListTrainingJobs of a job with this description."""
    found = {name: description[name] for name in _SUMMARY_FIELDS if name in description}
    return cast("TrainingJobSummary", found)


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
    # as boto3: a time without a zone is local
    after, before = (each and each.astimezone() for each in (CreationTimeAfter, CreationTimeBefore))
    found = [
        job
        for job in summaries
        if (NameContains or "") in job["TrainingJobName"]
        and StatusEquals in (None, job["TrainingJobStatus"])
        and (after is None or job["CreationTime"] > after)
        and (before is None or job["CreationTime"] < before)
    ]
    found.sort(key=lambda job: job["CreationTime"], reverse=True)
    return {"TrainingJobSummaries": found[:limit]}
