"""`launcher rm` and `launcher prune`: remove jobs of this machine that have ended."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from launcher.client.cli.options import completion_values
from launcher.client.cli.options.age_option import age_option
from launcher.client.cli.screen.confirmation import confirm_each, yes_option
from launcher.client.cli.screen.terminal_output import echo
from launcher.client.cli.screen.verb_output import act_on_each, with_output_option
from launcher.client.sessions import TERMINAL_STATUSES, open_local_session
from launcher.errors import JobNotFound

if TYPE_CHECKING:
    from launcher.client.sessions import LocalSession


@click.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completion_values.jobs)
@yes_option("Remove several jobs without asking.")
@with_output_option
def rm(names: tuple[str, ...], yes: bool, output: str) -> int:
    """Remove jobs NAMES of this machine, with their results.

    They must have ended, and are named in full. Results and checkpoints that they wrote elsewhere
    stay. If one cannot be removed, the others are removed all the same.
    """
    session = open_local_session()
    if len(named := list(dict.fromkeys(names))) > 1:
        confirm_each("remove", named, yes=yes)
    return act_on_each(names, lambda name: _remove(name, session, output), output)


@click.command()
@age_option(
    "Remove jobs created before that time, for example 12h, 7d or 4w ago.",
    name="--older-than",
    is_required=True,
)
@yes_option("Remove them without asking.")
@with_output_option
def prune(older_than: datetime, yes: bool, output: str) -> int:
    """Remove old jobs of this machine, with their results.

    They are shown first. Jobs that run stay, as do results and checkpoints that jobs wrote
    elsewhere.
    """
    session = open_local_session()
    jobs = session.list_training_jobs(CreationTimeBefore=older_than)["TrainingJobSummaries"]
    ended = [job for job in jobs if job["TrainingJobStatus"] in TERMINAL_STATUSES]
    names = [job["TrainingJobName"] for job in ended]
    confirm_each("remove", names, yes=yes)
    return act_on_each(names, lambda name: _remove_if_there(name, session, output), output)


def _remove_if_there(name: str, session: LocalSession, output: str) -> dict[str, object] | None:
    """Remove a job; return None if another process has removed it meanwhile."""
    try:
        return _remove(name, session, output)
    except JobNotFound:
        return None


def _remove(name: str, session: LocalSession, output: str) -> dict[str, object]:
    """Remove a job and show it at once; return its name and size."""
    size = session.remove_training_job(TrainingJobName=name)
    if output == "text":
        echo(f"{name}  {size / 1e6:.1f} MB")
    return {"name": name, "bytes": size}
