"""CreateTrainingJob with retries, creating the job exactly once even if a response is lost.

SageMaker refuses a name that was used before, but after a lost response it is unknown whether the
job exists. Then the job of that name is described: if it matches the request, it is ours; if there
is none, the request is sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from launcher.client.sessions.aws import sagemaker_jobs
from launcher.client.sessions.aws.clients import Clients
from launcher.client.sessions.aws.transient_errors import (
    is_propagating,
    is_server_fault,
    is_transient,
    retry,
)
from launcher.client.sessions.retry_policy import RetryPolicy
from launcher.errors import CloudError, JobNotFound, Refused, Unreachable

if TYPE_CHECKING:
    from launcher.shared import TrainingJobDescription, TrainingJobRequest

#: Longest time for a role or policy to propagate; Terraform waits as long.
_RETRY_POLICY = RetryPolicy(seconds=120, first=1.0)
#: Largest difference between this machine's clock and AWS's; AWS refuses requests beyond it.
_CLOCK = timedelta(minutes=5)


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
            found = sagemaker_jobs.describe(self._clients, self._name)
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


#: Fields that a description may have others for: AWS's own algorithms come with their metrics.
_REPLACED = frozenset({"MetricDefinitions"})


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
