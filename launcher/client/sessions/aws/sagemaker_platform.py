"""SageMaker's description of itself; boto3 is not loaded for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.client.request.validation import find_violations
from launcher.client.sessions.aws.secret_violations import secret_violations
from launcher.client.sessions.aws.transient_errors import is_transient
from launcher.client.sessions.base import Platform
from launcher.errors import CloudError, CredentialsExpired

if TYPE_CHECKING:
    from launcher.client.request.validation.violations import Violation
    from launcher.shared.training_job_types import TrainingJobRequest


def _is_transient(error: CloudError) -> bool:
    """Return True if the same call may succeed later; credentials may be renewed meanwhile."""
    return is_transient(error) or isinstance(error, CredentialsExpired)


def _violations(request: TrainingJobRequest) -> tuple[Violation, ...]:
    return (*find_violations(request), *secret_violations(request))


SAGEMAKER = Platform(
    name="aws",
    bills=True,
    uri_scheme="s3",
    reads_files=False,
    judge=_violations,
    is_transient=_is_transient,
    uses_aws=True,
)
