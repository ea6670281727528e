"""Which platform has the job of a name: this machine, or else SageMaker. Decided only here."""

from __future__ import annotations

from launcher.errors import CloudError, JobNotFound, PlatformError
from launcher.sessions.base import Session


def session_of(job: str, *, in_cloud: bool = False) -> Session:
    """The session that knows a job; JobNotFound where none does.

    This machine is asked first, and SageMaker where a region is configured.

    in_cloud: ask only SageMaker. Raises CloudError when it cannot be asked.
    """
    if in_cloud:
        return _known(aws_session(), job)
    try:
        return _known(local_session(), job)
    except (JobNotFound, PlatformError) as absent:
        return _in_cloud(job, absent)


def local_session() -> Session:
    """This machine."""
    from launcher.sessions.local import LocalSession  # boto3 is not loaded for it

    return LocalSession()


def aws_session() -> Session:
    """SageMaker, as it is configured here."""
    from launcher.sessions.aws import AwsSession

    return AwsSession()


def _in_cloud(job: str, absent: JobNotFound | PlatformError) -> Session:
    """SageMaker, when it has a job that this machine has not."""
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


def _known(session: Session, job: str) -> Session:
    session.describe_training_job(TrainingJobName=job)
    return session
