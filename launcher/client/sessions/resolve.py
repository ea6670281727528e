"""Resolve what a user calls a job to its name and its session. Decided only here.

A name is looked for on this machine, then in other packages' sessions, then on SageMaker.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from launcher.client.home import home_folder, records_folder
from launcher.client.sessions.base import KeepsJobFiles, KeepsRecords, PlatformSession
from launcher.client.sessions.local.job.job_root import JobRoot
from launcher.client.sessions.registry import (
    local_session,
    open_session,
    other_session_names,
)
from launcher.errors import CloudError, JobNotFound, LauncherError, PlatformError

#: The word for the newest job.
LATEST = "latest"


def named_job(text: str | None, among: str | None = None) -> tuple[str, PlatformSession]:
    """Return the name and the session of the job that a user means, for what only reads it.

    text: its name, the beginning of only one job's name, or None or "latest" for the newest job.
    Beginnings and the newest are looked for among the jobs of this machine and those that it sent,
    or in the session `among`. Raises JobNotFound, with the names where a beginning fits several.
    """
    if text in (None, LATEST):
        if not (names := _names_that_begin("", among)):
            raise JobNotFound("there is no job yet: `launcher run` sends one")
        return names[0], session_of(names[0], among)
    assert text is not None
    try:
        return text, session_of(text, among)
    except (JobNotFound, PlatformError, CloudError) as absent:
        names = _names_that_begin(text, among) if text else []
        if len(names) > 1:
            several = f"{len(names)} jobs begin with {text!r}: {', '.join(names)}"
            raise JobNotFound(f"{several}; write more of its name") from absent
        if not names:
            raise
        return names[0], session_of(names[0], among)


def _names_that_begin(text: str, among: str | None) -> list[str]:
    """Return the jobs whose names begin so, newest first; of all jobs, perhaps the newest alone."""
    if among is not None:
        asked = open_session(among)
        listed = asked.list_training_jobs(NameContains=text or None, limit=None if text else 1)
        names = [job["TrainingJobName"] for job in listed["TrainingJobSummaries"]]
    else:
        created = {job.name: job.created for job in JobRoot(home_folder()).all()}
        sent = {file.stem: file.stat().st_mtime for file in records_folder().glob("*/*/*.json")}
        created = {**sent, **created}
        names = sorted(created, key=lambda name: -created[name])
    return [name for name in names if name.startswith(text)]


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


def is_from_here(session: PlatformSession, job_name: str) -> bool:
    """Return whether this machine sent a job, by its record, or keeps the job itself."""
    if isinstance(session, KeepsJobFiles):
        return True
    return isinstance(session, KeepsRecords) and session.record_file(job_name).is_file()


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
    session = open_session("aws")
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
