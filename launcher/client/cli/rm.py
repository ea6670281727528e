"""`launcher rm` and `launcher prune`: remove jobs of this machine that have ended."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

import click

from launcher.client.cli import completion_values
from launcher.client.cli.age_option import age_option
from launcher.client.cli.json_output import print_json
from launcher.client.cli.terminal_output import echo
from launcher.client.cli.verb_output import described_error, print_error, with_output_option
from launcher.client.sessions.base import TERMINAL_STATUSES
from launcher.client.sessions.registry import open_local_session
from launcher.errors import JobNotFound, LauncherError

if TYPE_CHECKING:
    from launcher.client.sessions.local import LocalSession


@click.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completion_values.jobs)
@with_output_option
def rm(names: tuple[str, ...], output: str) -> int:
    """Remove jobs NAMES of this machine, with their results.

    They must have ended. Results and checkpoints that they wrote elsewhere stay. If one cannot be
    removed, the others are removed all the same.
    """
    return _remove(names, open_local_session(), output)


@click.command()
@age_option(
    "Remove jobs created before that time, for example 12h, 7d or 4w ago.",
    name="--older-than",
    is_required=True,
)
@with_output_option
def prune(older_than: datetime, output: str) -> int:
    """Remove old jobs of this machine, with their results.

    Jobs that run stay, as do results and checkpoints that jobs wrote elsewhere.
    """
    session = open_local_session()
    jobs = session.list_training_jobs(CreationTimeBefore=older_than)["TrainingJobSummaries"]
    ended = [job for job in jobs if job["TrainingJobStatus"] in TERMINAL_STATUSES]
    return _remove([job["TrainingJobName"] for job in ended], session, output, gone_is_fine=True)


def _remove(
    names: Iterable[str], session: LocalSession, output: str, *, gone_is_fine: bool = False
) -> int:
    """Remove jobs, each of which is shown at once; return the exit code.

    gone_is_fine: a job that another process has removed meanwhile is no error.
    """
    removed: list[dict[str, object]] = []
    errors: list[LauncherError] = []
    for name in dict.fromkeys(names):
        try:
            size = session.remove_training_job(TrainingJobName=name)
        except LauncherError as error:
            if gone_is_fine and isinstance(error, JobNotFound):
                continue
            errors.append(error)
            print_error(error)
            continue
        removed.append({"name": name, "bytes": size})
        if output == "text":
            echo(f"{name}  {size / 1e6:.1f} MB")
    if output == "json":
        print_json({"jobs": removed, **(described_error(errors[0]) if errors else {})})
    return errors[0].exit_code if errors else 0
