"""The session of an Estimator: one of ours, or ours in place of a `sagemaker` session."""

from __future__ import annotations

from launcher.client.jobs.job import Job
from launcher.client.sessions.base import PlatformSession, is_session
from launcher.client.sessions.resolve import local_session, session_of


def own_session(given: object, *, local: bool) -> PlatformSession | None:
    """Return the given session if it is one of ours, this machine's if `local`, or else None."""
    if is_session(given):
        return given
    return local_session() if local else None


def aws_session(given: object) -> PlatformSession:
    """Return an AWS session that uses the boto3 session of a given `sagemaker` Session, if any."""
    from launcher.client.sessions.aws.aws_session import AwsSession  # boto3 is loaded only for AWS

    return AwsSession(
        getattr(given, "boto_region_name", None),
        boto_session=getattr(given, "boto_session", None),
        default_bucket=getattr(given, "_default_bucket_name_override", None),
        default_bucket_prefix=getattr(given, "default_bucket_prefix", None),
    )


def is_local_mode(given: object) -> bool:
    """Return whether a session of the sagemaker package is its LocalSession."""
    return bool(getattr(given, "local_mode", False))


def find_job(named: object, given: object) -> Job:
    """Return a job of the given session; without a session, one of this machine, or else of AWS.

    named: a name, a Job, which keeps its session, a job of an Estimator of SDK v2, or a TrainingJob
    of SDK v3.

    Raises JobNotFound if no session is given and neither of the two has the job.
    """
    if isinstance(named, Job) and given is None:
        return named
    name = job_name_of(named)
    if given is None:
        return Job(name, session_of(name))
    return Job(name, own_session(given, local=is_local_mode(given)) or aws_session(given))


def job_name_of(named: object) -> str:
    """Return the name of a job that is given by its name or as an object of either package."""
    for attribute in ("training_job_name", "job_name"):
        if name := getattr(named, attribute, None):
            return str(name)
    return str(named)
