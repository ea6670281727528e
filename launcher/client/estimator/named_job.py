"""The job that is named to an Estimator: by its name, or by an object of either package."""

from __future__ import annotations

from launcher.client.jobs import Job
from launcher.client.sessions import aws_session, is_local_mode, own_session, session_of
from launcher.errors import Problem, SpecError
from launcher.shared import shown


def find_job(named: object, given: object) -> Job:
    """Return a job of the given session; without a session, one of this machine, or else of AWS.

    named: a name; a Job, which keeps its session; an Estimator of either package, which stands for
    its latest job; a job of an Estimator of SDK v2; or a TrainingJob of SDK v3.

    Raises SpecError for any other object, and JobNotFound if no session is given and neither of the
    two has the job.
    """
    if hasattr(named, "latest_training_job"):
        latest = _latest_job(named)
        if not isinstance(latest, Job):  # of SDK v2, whose jobs are where its session is
            given = given or getattr(named, "sagemaker_session", None)
        named = latest
    if isinstance(named, Job) and given is None:
        return named
    name = named.name if isinstance(named, Job) else job_name_of(named)
    if given is None:
        return Job(name, session_of(name))
    return Job(name, own_session(given, local=is_local_mode(given)) or aws_session(given))


def job_name_of(named: object) -> str:
    """Return the name of a job that is given by its name or as an object of either package."""
    if isinstance(named, str):
        return named
    for attribute in ("training_job_name", "job_name"):
        if isinstance(name := getattr(named, attribute, None), str):
            return name
    raise _refused(f"{shown(named)} is not a training job", "give the name of one")


def _latest_job(estimator: object) -> object:
    latest: object = getattr(estimator, "latest_training_job")  # noqa: B009 - of either package
    if latest is None:
        raise _refused("the estimator has not run a job", "call its fit() first, or give a name")
    return latest


def _refused(what: str, fix: str) -> SpecError:
    return SpecError([Problem(what=what, where="training_job_name", fix=fix)])
