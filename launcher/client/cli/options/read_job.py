"""The job that a verb is about: by name, by the beginning of its name, or the newest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from launcher.client.cli.options import completion_values
from launcher.client.cli.screen.verb_output import print_message
from launcher.client.jobs import Job
from launcher.client.sessions import local_session, named_job, session_of
from launcher.errors import JobNotFound, PlatformError

if TYPE_CHECKING:
    from launcher.client.sessions import LocalSession


#: NAME, for verbs that only read a job.
job_argument = click.argument("name", required=False, shell_complete=completion_values.jobs)


def job_to_read(name: str | None, session: str | None = None) -> Job:
    """Return the job that is meant, and mention its name unless it was written in full."""
    found, its_session = named_job(name, session)
    if found != name:
        print_message(f"Job {found}:")
    return Job(found, its_session)


def session_of_local_job(name: str, otherwise: str) -> LocalSession:
    """Return this machine's session, which has the job.

    otherwise: what to do for a job elsewhere. Raises PlatformError with it for such a job, and
    JobNotFound for a job that no session has.
    """
    session = local_session()
    try:
        session.describe_training_job(TrainingJobName=name)
    except JobNotFound:
        elsewhere = session_of(name)  # raises JobNotFound if it is nowhere
        where, *_ = elsewhere.place_notes(elsewhere.describe_training_job(TrainingJobName=name))
        raise PlatformError(f"job {name} runs {where}, not on this machine: {otherwise}") from None
    return session
