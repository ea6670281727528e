"""`launcher rm`: remove jobs of this machine that have ended."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from launcher.client.cli.options import completion_values
from launcher.client.cli.options.shared_options import age_option
from launcher.client.cli.screen.verb_output import (
    act_on_each,
    confirm_each,
    echo,
    with_output_option,
    yes_option,
)
from launcher.client.sessions import TERMINAL_STATUSES, local_session
from launcher.errors import JobNotFound

if TYPE_CHECKING:
    from launcher.client.sessions import LocalSession


@click.command()
@click.argument("names", nargs=-1, shell_complete=completion_values.jobs)
@age_option(
    "Remove the jobs created before that time, for example 12h, 7d or 4w ago.", name="--older-than"
)
@yes_option("Remove several jobs without asking.")
@with_output_option
def rm(names: tuple[str, ...], older_than: datetime | None, yes: bool, output: str) -> int:
    """Remove jobs NAMES of this machine, or old ones, with their results.

    They must have ended, and are named in full; --older-than shows them first, and leaves those
    that run. Results and checkpoints that they wrote elsewhere stay. If one cannot be removed, the
    others are removed all the same.
    """
    if (older_than is None) != bool(names):
        raise click.UsageError("give the NAME of a job, or --older-than AGE")
    session = local_session()
    if older_than is not None:
        old = _ended_before(older_than, session)
        confirm_each("remove", old, yes=yes)
        return act_on_each(old, lambda name: _remove_if_there(name, session, output), output)
    if len(named := list(dict.fromkeys(names))) > 1:
        confirm_each("remove", named, yes=yes)
    return act_on_each(named, lambda name: _remove(name, session, output), output)


def _ended_before(time: datetime, session: LocalSession) -> list[str]:
    """Return the jobs that were created before a time and have ended."""
    jobs = session.list_training_jobs(CreationTimeBefore=time)["TrainingJobSummaries"]
    return [job["TrainingJobName"] for job in jobs if job["TrainingJobStatus"] in TERMINAL_STATUSES]


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
