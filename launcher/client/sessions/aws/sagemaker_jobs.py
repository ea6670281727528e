"""SageMaker's training jobs: create, describe, stop and list.

A job is created with retries, and exactly once even if a response is lost. SageMaker refuses a name
that was used before, but after a lost response it is unknown whether the job exists. Then the job
of that name is described: if it matches the request, it is ours; if there is none, the request is
sent again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, cast

from launcher.client.sessions.aws.clients import Clients
from launcher.client.sessions.aws.response_check import foreign_response
from launcher.client.sessions.aws.transient_errors import (
    READ_POLICY,
    is_propagating,
    is_server_fault,
    is_throttled,
    is_transient,
    retry,
    retry_read,
)
from launcher.client.sessions.base import TERMINAL_STATUSES
from launcher.client.sessions.retry_policy import RetryPolicy
from launcher.errors import CloudError, JobNotFound, Refused, Unreachable

if TYPE_CHECKING:
    from launcher.shared import (
        TrainingJobDescription,
        TrainingJobList,
        TrainingJobRequest,
        TrainingJobSummary,
    )


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
#: Longest time for a role or policy to propagate; Terraform waits as long.
_RETRY_POLICY = RetryPolicy(seconds=120, first=1.0)
#: Largest difference between this machine's clock and AWS's; AWS refuses requests beyond it.
_CLOCK = timedelta(minutes=5)
#: Fields that a description may have others for: AWS's own algorithms come with their metrics.
_REPLACED = frozenset({"MetricDefinitions"})


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


class Creation:
    """The creation of one job; remembers across attempts whether the job may already exist."""

    def __init__(
        self, clients: Clients, request: TrainingJobRequest, notify: Callable[[str], None]
    ) -> None:
        self._clients = clients
        self._request = request
        self._name = str(request["TrainingJobName"])
        self._notify = notify
        self._outcome_unknown = False
        self._earliest_creation = datetime.now(timezone.utc) - _CLOCK

    def run(self, policy: RetryPolicy = _RETRY_POLICY) -> str:
        """Create the job and return its ARN.

        Raises CloudError; if the outcome is unknown, the error explains how to check whether the
        job was created.
        """
        try:
            return retry(self._attempt, policy, _is_retryable, self._notify)
        except CloudError as error:
            if self._outcome_unknown:
                error.add(
                    f"  job {self._name} may have been created: check with `launcher status "
                    f"{self._name}`; a second job of this name is never created"
                )
            raise

    def _attempt(self) -> str:
        if self._outcome_unknown and (arn := self._existing_arn()):
            return arn
        try:
            return self._send()
        except CloudError as error:
            if is_server_fault(error) or isinstance(error, Unreachable):
                self._outcome_unknown = True
            if (
                error.code == "ResourceInUse"
                and self._outcome_unknown
                and (arn := self._existing_arn())
            ):
                return arn
            raise

    def _send(self) -> str:
        with self._clients.client("sagemaker") as sagemaker:
            return str(sagemaker.create_training_job(**self._request)["TrainingJobArn"])

    def _existing_arn(self) -> str | None:
        """Return the ARN of our own job; None while no job has the name."""
        try:
            found = describe(self._clients, self._name)
        except JobNotFound:
            return None
        if found["CreationTime"] < self._earliest_creation or not matches_request(
            self._request, found
        ):
            self._outcome_unknown = False
            raise Refused(
                f"the name {self._name!r} was already used for another job\n"
                "  fix: use another name, or omit it",
                code="ResourceInUse",
            )
        return str(found["TrainingJobArn"])


def matches_request(request: TrainingJobRequest, description: TrainingJobDescription) -> bool:
    """Return True if a described job matches a request in all fields that are described.

    Fields that are missing from the description are ignored; tags are never described.
    """
    return all(
        _extends(wanted, description.get(field))
        for field, wanted in request.items()
        if field in description
    )


def _extends(wanted: object, found: object) -> bool:
    """Return True if `found` equals `wanted` or extends it: AWS adds its defaults."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return all(
            key in found and _extends(value, found[key])
            for key, value in wanted.items()
            if key not in _REPLACED
        )
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(_extends, wanted, found))
    return bool(wanted == found)


def _is_retryable(error: CloudError) -> bool:
    return is_transient(error) or is_propagating(error)
