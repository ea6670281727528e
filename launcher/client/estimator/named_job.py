"""The job that is named to an Estimator: by its name, or by an object of either package."""

from __future__ import annotations

from launcher.client.jobs.job import Job
from launcher.client.sessions.given_session import aws_session, is_local_mode, own_session
from launcher.client.sessions.resolve import session_of


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
