"""SageMaker's training jobs: describe, stop and list. Jobs are created in create_job.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, cast

from launcher.client.sessions.aws.clients import Clients
from launcher.client.sessions.aws.response_check import foreign_response
from launcher.client.sessions.aws.transient_errors import (
    READ_POLICY,
    is_throttled,
    retry,
    retry_read,
)
from launcher.client.sessions.base import TERMINAL_STATUSES
from launcher.errors import JobNotFound, Refused

if TYPE_CHECKING:
    from launcher.shared import TrainingJobDescription, TrainingJobList, TrainingJobSummary

Result = TypeVar("Result")

#: The API's maximum.
_PAGE = 100
#: Pages without a new job: filters make a few, tokens that repeat or never end make any number.
_MOST_EMPTY_PAGES = 20
#: Those of the API. A follower would wait for ever for the end of a job with another one.
_STATUSES = TERMINAL_STATUSES | {"InProgress", "Stopping", "Deleting"}
#: The values of SecondaryStatus that agree with each terminal TrainingJobStatus.
_ENDINGS: Mapping[str, Collection[str]] = {
    "Completed": {"Completed"},
    "Failed": {"Failed"},
    "Stopped": {"Stopped", "MaxRuntimeExceeded", "MaxWaitTimeExceeded"},
}
#: Characters of a foreign name that are shown.
_NAME_SHOWN = 63
#: More than any account has, and few enough to be listed one by one.
_MOST_HOSTS = 100_000
_ARN = re.compile(r"arn:[^:]+:sagemaker:[^:]+:\d{12}:training-job/.")
#: SageMaker's message, and moto's.
_NOT_FOUND = ("Requested resource not found", "Could not find training job")


def describe(clients: Clients, name: str) -> TrainingJobDescription:
    """Return the description, with the job's token unredacted; raise JobNotFound."""

    def call() -> TrainingJobDescription:
        with clients.client("sagemaker") as sagemaker:
            answer = dict(sagemaker.describe_training_job(TrainingJobName=name))
        answer.pop("ResponseMetadata", None)
        _check_description(answer, name)
        return cast("TrainingJobDescription", answer)

    return _translate_not_found(clients, name, lambda: retry_read(call))


def _check_description(answer: Mapping[str, Any], name: str) -> None:
    """Raise Unreachable for a description of another job, or one that contradicts itself."""
    if answer["TrainingJobName"] != name:
        other = str(answer["TrainingJobName"])[:_NAME_SHOWN]
        raise foreign_response("DescribeTrainingJob", f"describes the job {other!r}")
    if _ARN.match(arn := str(answer["TrainingJobArn"])) is None:
        raise foreign_response("DescribeTrainingJob", f"has the ARN {arn[:_NAME_SHOWN]!r}")
    if (status := str(answer["TrainingJobStatus"])) not in _STATUSES:
        raise foreign_response("DescribeTrainingJob", f"has the status {status[:_NAME_SHOWN]!r}")
    if (state := str(answer["SecondaryStatus"])) not in _ENDINGS.get(status, {state}):
        raise foreign_response(
            "DescribeTrainingJob", f"is {status} and {state[:_NAME_SHOWN]} at once"
        )
    if status == "Completed" and "TrainingEndTime" not in answer:
        raise foreign_response("DescribeTrainingJob", f"is {status}, but has no end time")
    if (hosts := sum(_host_counts(answer))) > _MOST_HOSTS:
        raise foreign_response("DescribeTrainingJob", f"has {hosts:,} instances")


def _host_counts(description: Mapping[str, Any]) -> Iterator[int]:
    resources = description.get("ResourceConfig", {})
    for each in (resources, *resources.get("InstanceGroups", ())):
        yield each.get("InstanceCount", 0)


def stop(clients: Clients, name: str) -> None:
    """Ask a job to stop; leave one that is ending or has ended as it is."""

    def call() -> None:
        with clients.client("sagemaker") as sagemaker:
            sagemaker.stop_training_job(TrainingJobName=name)

    try:
        _translate_not_found(clients, name, lambda: retry_read(call))
    except Refused as error:
        # SageMaker: "The request was rejected because the training job is in status Completed."
        if error.code != "ValidationException" or not _is_ending(clients, name):
            raise


def update(clients: Clients, **request: Any) -> None:
    """Change a running job; the arguments are those of UpdateTrainingJob."""

    def call() -> None:
        with clients.client("sagemaker") as sagemaker:
            sagemaker.update_training_job(**request)

    name = request["TrainingJobName"]
    # Not repeated after a lost response: the job may have been changed by someone else since.
    _translate_not_found(clients, name, lambda: retry(call, READ_POLICY, is_throttled))


def summaries(
    clients: Clients, filters: Mapping[str, object], limit: int | None
) -> TrainingJobList:
    """Return the entries of ListTrainingJobs that pass the filters, newest first."""
    given = {name: value for name, value in filters.items() if value is not None}
    order = {"SortBy": "CreationTime", "SortOrder": "Descending"}
    size = _PAGE if limit is None else max(1, min(limit, _PAGE))

    def page(token: str | None) -> dict[str, Any]:
        more = {"NextToken": token} if token else {}
        with clients.client("sagemaker") as sagemaker:
            return dict(sagemaker.list_training_jobs(**given, **order, **more, MaxResults=size))

    return {"TrainingJobSummaries": list(islice(_entries(page), limit))}


def _entries(page: Callable[[str | None], dict[str, Any]]) -> Iterator[TrainingJobSummary]:
    """Yield each job once; raise Unreachable for pages that never end."""
    token: str | None = None
    seen: set[str] = set()
    empty = 0
    while True:
        answer = retry_read(partial(page, token))
        fresh = [job for job in answer["TrainingJobSummaries"] if _is_new(job, seen)]
        yield from fresh
        token = answer.get("NextToken")
        empty = 0 if fresh else empty + 1
        if not token:
            return
        if empty > _MOST_EMPTY_PAGES:
            raise foreign_response("ListTrainingJobs", f"has {empty} pages without a new job")


def _is_new(job: TrainingJobSummary, seen: set[str]) -> bool:
    """Return True for the first entry of a job: new jobs shift the pages while they are read."""
    name = job["TrainingJobName"]
    is_new = name not in seen
    seen.add(name)
    return is_new


def _translate_not_found(clients: Clients, name: str, call: Callable[[], Result]) -> Result:
    """Return the answer about a job; raise JobNotFound for a name that AWS does not know."""
    try:
        return call()
    except Refused as error:
        if error.code == "ResourceNotFound" or any(text in str(error) for text in _NOT_FOUND):
            what = f"SageMaker has no training job {name!r} in {clients.region}"
            raise JobNotFound(f"{what}: `launcher list --cloud` names them all") from error
        raise


def _is_ending(clients: Clients, name: str) -> bool:
    status = describe(clients, name)["TrainingJobStatus"]
    return status == "Stopping" or status in TERMINAL_STATUSES
