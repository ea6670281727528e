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
from launcher.client.cli.verb_output import with_output_option
from launcher.client.sessions.base import TERMINAL_STATUSES
from launcher.client.sessions.registry import open_local_session

if TYPE_CHECKING:
    from launcher.client.sessions.local import LocalSession


@click.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completion_values.jobs)
@with_output_option
def rm(names: tuple[str, ...], output: str) -> int:
    """Remove jobs NAMES of this machine, with their results.

    They must have ended. Results and checkpoints that they wrote elsewhere stay.
    """
    _remove(names, open_local_session(), output)
    return 0


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
    _remove([job["TrainingJobName"] for job in ended], session, output)
    return 0


def _remove(names: Iterable[str], session: LocalSession, output: str) -> None:
    removed = {name: session.remove_training_job(TrainingJobName=name) for name in names}
    if output == "json":
        print_json({"jobs": [{"name": name, "bytes": size} for name, size in removed.items()]})
        return
    for name, size in removed.items():
        echo(f"{name}  {size / 1e6:.1f} MB")
