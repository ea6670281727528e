"""The job that a verb reads, and the options that choose its session.

A job is meant by its name, by a unique beginning of it, or as the newest; a session by its name in
the registry, or by a short form of that name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from launcher.client.cli.options import completion_values
from launcher.client.cli.options.shared_options import Verb
from launcher.client.cli.screen.verb_output import print_message
from launcher.client.jobs import Job
from launcher.client.sessions import local_session, named_job, session_of
from launcher.errors import JobNotFound, PlatformError

if TYPE_CHECKING:
    from launcher.client.sessions import LocalSession


def session_option(verb: Verb) -> Verb:
    """Add --session, and --cloud for SageMaker, to a verb of existing jobs."""
    named = _named("Look on this session only: local, aws, or one of an installed package.")
    return named(_short("--cloud", "aws", "Look on SageMaker only, not on this machine.")(verb))


def session_of_run_option(verb: Verb) -> Verb:
    """Add --session, and --local for this machine, to the verb that runs a job."""
    named = _named("Run on this session: local, aws, or one of an installed package.")
    local = "Run on this machine; instance types are then only names."
    return named(_short("--local", "local", local)(verb))


def session_of_check_option(verb: Verb) -> Verb:
    """Add --session, and --cloud for SageMaker, to the verb that checks a job."""
    named = _named(
        "Check a job for this session: local, aws, or one of an installed package [default: local]."
    )
    return named(_short("--cloud", "aws", "Check a job for AWS instead of this machine.")(verb))


def _named(meaning: str) -> Callable[[Verb], Verb]:
    return click.option(
        "--session",
        metavar="NAME",
        is_eager=True,  # known before its short form is read
        help=meaning,
        shell_complete=completion_values.sessions,
    )


def _short(option: str, name: str, meaning: str) -> Callable[[Verb], Verb]:
    """Return an option that means --session NAME."""

    def choose(context: click.Context, _parameter: click.Parameter, is_given: bool) -> None:
        if not is_given:
            return
        if context.params.get("session") not in (None, name):
            raise click.UsageError(f"{option} means --session {name}: give one of the two")
        context.params["session"] = name

    return click.option(option, is_flag=True, expose_value=False, callback=choose, help=meaning)


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
