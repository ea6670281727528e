"""Resolve a job's name to its platform: this machine first, then SageMaker. Decided only here."""

from __future__ import annotations

from launcher.client.sessions.base import PlatformSession
from launcher.client.sessions.registry import open_session
from launcher.errors import CloudError, JobNotFound, PlatformError


def session_of(job: str, *, in_cloud: bool = False) -> PlatformSession:
    """Return the session that has a job; raise JobNotFound if none does.

    This machine is tried first, then SageMaker if a region is configured.

    in_cloud: ask only SageMaker. Raises CloudError when SageMaker cannot be reached.
    """
    if in_cloud:
        return _known(aws_session(), job)
    try:
        return _known(local_session(), job)
    except (JobNotFound, PlatformError) as absent:
        return _in_cloud(job, absent)


def local_session() -> PlatformSession:
    """Return the session of this machine."""
    return open_session("local")  # does not import boto3


def aws_session() -> PlatformSession:
    """Return a SageMaker session with the configuration of this machine."""
    return open_session("aws")


def _in_cloud(job: str, absent: JobNotFound | PlatformError) -> PlatformSession:
    """Return SageMaker's session if it has a job that this machine does not have."""
    session = aws_session()
    try:
        region = session.region
    except CloudError as error:
        hint = "SageMaker was not asked: no AWS region is configured (AWS_DEFAULT_REGION)"
        raise type(absent)(f"{absent}\n  {hint}") from error
    try:
        return _known(session, job)
    except JobNotFound as error:
        raise JobNotFound(f"{absent}\n  nor does SageMaker in {region} have it") from error
    except CloudError as error:
        error.add(f"  it was asked because this machine has no job {job!r}")
        raise


def _known(session: PlatformSession, job: str) -> PlatformSession:
    session.describe_training_job(TrainingJobName=job)
    return session
