"""SageMaker's description of itself; boto3 is not loaded for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client.request import Violation, find_violations
from launcher.client.sessions.aws.transient_errors import is_transient
from launcher.client.sessions.base import Platform
from launcher.errors import CloudError, CredentialsExpired
from launcher.shared import SECRET_ARN, SECRET_PREFIX, secret_sources

if TYPE_CHECKING:
    from launcher.client.request import Violation
    from launcher.shared import TrainingJobRequest


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


def secret_violations(request: TrainingJobRequest) -> Iterator[Violation]:
    """Find secrets that are no ARNs, and secrets of a job that cannot reach Secrets Manager."""
    sources = secret_sources(request.get("Environment", {}))
    for name, source in sources.items():
        if not SECRET_ARN.fullmatch(source):
            yield Violation(
                path=("Environment", f"{SECRET_PREFIX}{name}"),
                what=f"on AWS the secret {name} needs the ARN of a secret of Secrets Manager: a "
                "value in the request could be read by everybody who may describe the job",
                fix="aws secretsmanager create-secret --name NAME --secret-string file://FILE, and "
                f"give the ARN that it prints: --secret {name}=ARN",
                aws_message="",
            )
    if sources and request.get("EnableNetworkIsolation"):
        yield Violation(
            path=("EnableNetworkIsolation",),
            what=f"with network isolation the hosts cannot read the secrets {', '.join(sources)}: "
            "Secrets Manager is outside of the job",
            fix="remove enable_network_isolation, or the secrets",
            aws_message="",
        )
