"""Resolve a job's name to its session: this machine, then other packages' sessions, then SageMaker.

Decided only here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from launcher.client.sessions.base import PlatformSession
from launcher.client.sessions.job_record import is_from_here
from launcher.client.sessions.registry import open_session, other_session_names
from launcher.errors import CloudError, JobNotFound, LauncherError, PlatformError


def session_of(job: str, among: str | None = None) -> PlatformSession:
    """Return the session that has a job; raise JobNotFound if none does.

    This machine is tried first, then the sessions of installed packages, then SageMaker if a
    region is configured.

    among: the name of the only session to ask. Its own error is raised when it cannot be asked.
    """
    if among is not None:
        return _known(open_session(among), job)
    try:
        return _known(local_session(), job)
    except (JobNotFound, PlatformError) as absent:
        return _elsewhere(job, absent)


def require_own(jobs: Sequence[str], among: str | None = None) -> None:
    """Raise PlatformError if one of several jobs, of those that exist, was not sent from here."""
    for job in jobs:
        with contextlib.suppress(JobNotFound):
            if not is_from_here(session_of(job, among), job):
                what = f"nothing was done: this machine did not send {job}"
                raise PlatformError(f"{what}; --any takes such jobs too, and its name alone does")


def local_session() -> PlatformSession:
    """Return the session of this machine."""
    return open_session("local")  # does not import boto3


def aws_session() -> PlatformSession:
    """Return a SageMaker session with the configuration of this machine."""
    return open_session("aws")


def _elsewhere(job: str, absent: JobNotFound | PlatformError) -> PlatformSession:
    """Return the session of a package, or SageMaker's, that has a job this machine does not."""
    for name in other_session_names():
        found = _asked(name, job)
        if not isinstance(found, str):
            return found
        absent = type(absent)(f"{absent}\n  {found}")
    return _in_cloud(job, absent)


def _asked(name: str, job: str) -> PlatformSession | str:
    """Return a package's session if it has a job, or else a line of why not."""
    try:
        return _known(open_session(name), job)
    except JobNotFound:
        return f"nor does the session {name} have it"
    except LauncherError as error:
        return f"the session {name} cannot be asked: {error}"


def _in_cloud(job: str, absent: JobNotFound | PlatformError) -> PlatformSession:
    """Return SageMaker's session if it has a job that no other session has."""
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
