"""A job that a verb reads: by name, by the beginning of its name, or the newest."""

from __future__ import annotations

import click

from launcher.client.cli.options import completion_values
from launcher.client.cli.screen.verb_output import print_message
from launcher.client.jobs import Job
from launcher.client.sessions import named_job

#: NAME, for verbs that only read a job.
job_argument = click.argument("name", required=False, shell_complete=completion_values.jobs)


def job_to_read(name: str | None, session: str | None = None) -> Job:
    """Return the job that is meant, and mention its name unless it was written in full."""
    found, its_session = named_job(name, session)
    if found != name:
        print_message(f"Job {found}:")
    return Job(found, its_session)
