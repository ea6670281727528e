"""Secrets that a job on SageMaker cannot have: bare values, and those out of its reach."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.client.request.validation.violations import Violation
from launcher.shared.secret_origins import SECRET_ARN, SECRET_PREFIX, secret_sources

if TYPE_CHECKING:
    from launcher.shared.training_job_types import TrainingJobRequest


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
