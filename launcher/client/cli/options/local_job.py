"""The session of a job whose hosts and files are on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launcher.client.sessions import open_local_session, session_of
from launcher.errors import JobNotFound, PlatformError

if TYPE_CHECKING:
    from launcher.client.sessions import LocalSession


def session_of_local_job(name: str, otherwise: str) -> LocalSession:
    """Return this machine's session, which has the job.

    otherwise: what to do for a job elsewhere. Raises PlatformError with it for such a job, and
    JobNotFound for a job that no session has.
    """
    session = open_local_session()
    try:
        session.describe_training_job(TrainingJobName=name)
    except JobNotFound:
        elsewhere = session_of(name)  # raises JobNotFound if it is nowhere
        where, *_ = elsewhere.place_notes(elsewhere.describe_training_job(TrainingJobName=name))
        raise PlatformError(f"job {name} runs {where}, not on this machine: {otherwise}") from None
    return session
