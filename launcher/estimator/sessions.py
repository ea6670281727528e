"""Which platform an Estimator means: ours as they are, and what stands for a `sagemaker` one."""

from __future__ import annotations

from typing import Any

from launcher.job import Job
from launcher.sessions.base import Session
from launcher.sessions.finding import local_session, session_of


def own_session(given: Any, *, local: bool) -> Session | None:
    """The session that was given, when it is one of ours; this machine's when `local`; or None."""
    if hasattr(given, "read_log"):
        session: Session = given
        return session
    return local_session() if local else None


def aws_session(given: Any) -> Session:
    """SageMaker, asked through the boto3 session of a Session of the sagemaker package, if any."""
    from launcher.sessions.aws import AwsSession  # boto3 is loaded for a job on AWS only

    return AwsSession(
        getattr(given, "boto_region_name", None),
        boto_session=getattr(given, "boto_session", None),
        default_bucket=getattr(given, "_default_bucket_name_override", None),
    )


def is_local_mode(given: Any) -> bool:
    """Whether a session of the sagemaker package is its LocalSession."""
    return bool(getattr(given, "local_mode", False))


def find_job(name: str, given: Any) -> Job:
    """A job of the given session; without one, of this machine, or else of AWS.

    Raises JobNotFound when no session was given, and neither of the two has it.
    """
    if given is None:
        return Job(name, session_of(name))
    return Job(name, own_session(given, local=is_local_mode(given)) or aws_session(given))
