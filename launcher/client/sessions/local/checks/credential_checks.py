"""Check that AWS credentials exist for a job that uses S3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from launcher.client.sessions.local.request_uris import place_of, uris_of
from launcher.client.sessions.s3_uris import is_s3
from launcher.errors import Problem

if TYPE_CHECKING:
    from launcher.shared.training_job_types import TrainingJobRequest

_KEY = "AWS_ACCESS_KEY_ID"


def check_credentials(
    request: TrainingJobRequest, environment: Mapping[str, str]
) -> Iterator[Problem]:
    """Yield a problem for the first S3 location, if no AWS credentials are found."""
    locations = [(path, uri) for path, uri in uris_of(request) if is_s3(uri)]
    if not locations or _KEY in environment or _has_credentials():
        return
    path, uri = locations[0]
    yield Problem(
        what=f"{uri} is in S3, and no AWS credentials are found",
        path=path,
        where=place_of(request, path),
        fix="give some (`aws configure`, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), or "
        "files of this machine: file:///absolute/path",
    )


def _has_credentials() -> bool:
    """Return whether boto3 finds credentials: in variables, in files or in an instance's role."""
    import boto3  # slow to import; only jobs that use S3 need it

    return boto3.Session().get_credentials() is not None
