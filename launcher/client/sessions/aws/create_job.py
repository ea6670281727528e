"""CreateTrainingJob with retries, creating the job exactly once even if an answer is lost.

SageMaker refuses a name that was used before, but when an answer is lost it is unknown whether the
job exists. Then the job of that name is described: if it matches the request, it is ours; if there
is none, the request is sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from launcher.client.sessions.aws import sagemaker_jobs
from launcher.client.sessions.aws.clients import Clients
from launcher.client.sessions.aws.retries import (
    RetryPolicy,
    is_passing,
    is_propagating,
    is_server_fault,
    retry,
)
from launcher.errors import CloudError, JobNotFound, Refused, Unreachable

if TYPE_CHECKING:
    from launcher.shared.training_job_types import (
        TrainingJobDescription,
        TrainingJobRequest,
    )

#: Longest time for a role or policy to propagate; Terraform waits as long.
_PATIENCE = RetryPolicy(seconds=120, first=1.0)
#: Largest difference between this machine's clock and AWS's; AWS refuses requests beyond it.
_CLOCK = timedelta(minutes=5)


class Creation:
    """The creation of one job; remembers across attempts whether the job may already exist."""

    def __init__(
        self, clients: Clients, request: TrainingJobRequest, tell: Callable[[str], None]
    ) -> None:
        self._clients = clients
        self._request = request
        self._name = str(request["TrainingJobName"])
        self._tell = tell
        self._is_open = False
        self._begun = datetime.now(timezone.utc) - _CLOCK

    def run(self, patience: RetryPolicy = _PATIENCE) -> str:
        """Create the job and return its ARN.

        Raises CloudError; if the outcome is unknown, the error explains how to find out whether the
        job was created.
        """
        try:
            return retry(self._attempt, patience, _may_be_better, self._tell)
        except CloudError as error:
            if self._is_open:
                error.add(
                    f"  whether job {self._name} was created is not known, and `launcher status "
                    f"{self._name}` says it; a second job of this name is never made"
                )
            raise

    def _attempt(self) -> str:
        if self._is_open and (arn := self._found()):
            return arn
        try:
            return self._ask()
        except CloudError as error:
            if is_server_fault(error) or isinstance(error, Unreachable):
                self._is_open = True
            if error.code == "ResourceInUse" and self._is_open and (arn := self._found()):
                return arn
            raise

    def _ask(self) -> str:
        with self._clients.client("sagemaker") as sagemaker:
            return str(sagemaker.create_training_job(**self._request)["TrainingJobArn"])

    def _found(self) -> str | None:
        """Return the ARN of our own job; None while no job has the name."""
        try:
            found = sagemaker_jobs.describe(self._clients, self._name)
        except JobNotFound:
            return None
        if found["CreationTime"] < self._begun or not is_answered_by(self._request, found):
            self._is_open = False
            raise Refused(
                f"the name {self._name!r} was used for another job before\n"
                "  fix: give another name, or none",
                code="ResourceInUse",
            )
        return str(found["TrainingJobArn"])


def is_answered_by(request: TrainingJobRequest, description: TrainingJobDescription) -> bool:
    """Return whether a described job matches a request, in all fields that are described.

    Fields that are missing from the description are ignored; tags are never described.
    """
    return all(
        _is_within(wanted, description.get(field))
        for field, wanted in request.items()
        if field in description
    )


def _is_within(wanted: object, found: object) -> bool:
    """Return whether `found` is equal to `wanted` or extends it: AWS adds its defaults."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        return all(key in found and _is_within(value, found[key]) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(_is_within, wanted, found))
    return bool(wanted == found)


def _may_be_better(error: CloudError) -> bool:
    return is_passing(error) or is_propagating(error)
