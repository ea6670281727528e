"""SageMaker's training jobs: describe, stop and list. Jobs are created in create_job.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, cast

from launcher.client.sessions.aws.clients import Clients
from launcher.client.sessions.aws.transient_errors import is_throttled, is_transient, retry
from launcher.client.sessions.base import TERMINAL_STATUSES
from launcher.client.sessions.retry import RetryPolicy
from launcher.errors import JobNotFound, Refused

if TYPE_CHECKING:
    from launcher.shared.training_job_types import (
        TrainingJobDescription,
        TrainingJobList,
        TrainingJobSummary,
    )

Result = TypeVar("Result")

_RETRY_POLICY = RetryPolicy(seconds=30)
#: The API's maximum.
_PAGE = 100
#: SageMaker's message, and moto's.
_NOT_FOUND = ("Requested resource not found", "Could not find training job")


def describe(clients: Clients, name: str) -> TrainingJobDescription:
    """Return the description, with the job's token unredacted; raise JobNotFound."""

    def call() -> TrainingJobDescription:
        with clients.client("sagemaker") as sagemaker:
            answer = dict(sagemaker.describe_training_job(TrainingJobName=name))
        answer.pop("ResponseMetadata", None)
        return cast("TrainingJobDescription", answer)

    return _translate_not_found(clients, name, lambda: retry(call, _RETRY_POLICY, is_throttled))


def stop(clients: Clients, name: str) -> None:
    """Ask a job to stop; leave one that is ending or has ended as it is."""

    def call() -> None:
        with clients.client("sagemaker") as sagemaker:
            sagemaker.stop_training_job(TrainingJobName=name)

    try:
        _translate_not_found(clients, name, lambda: retry(call, _RETRY_POLICY, is_transient))
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
    _translate_not_found(clients, name, lambda: retry(call, _RETRY_POLICY, is_throttled))


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
    token: str | None = None
    while True:
        answer = retry(partial(page, token), _RETRY_POLICY, is_throttled)
        yield from answer["TrainingJobSummaries"]
        token = answer.get("NextToken")
        if not token:
            return


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
