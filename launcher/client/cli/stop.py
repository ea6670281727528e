"""`launcher stop`: stop jobs, or all jobs."""

from __future__ import annotations

from collections.abc import Iterable

import click

from launcher.client.cli import completion_values
from launcher.client.cli.json_output import print_json
from launcher.client.cli.session_options import session_option
from launcher.client.cli.verb_output import (
    described_error,
    print_error,
    print_message,
    with_output_option,
)
from launcher.client.jobs.job import Job
from launcher.client.sessions.base import TERMINAL_STATUSES
from launcher.client.sessions.registry import open_session
from launcher.client.sessions.resolve import session_of
from launcher.errors import LauncherError


@click.command()
@click.argument("names", nargs=-1, shell_complete=completion_values.jobs)
@click.option("--all", "is_all", is_flag=True, help="Stop all jobs of this machine that run.")
@session_option
@with_output_option
def stop(names: tuple[str, ...], is_all: bool, session: str | None, output: str) -> int:
    """Stop jobs NAMES, or all jobs.

    Their hosts get 120 seconds to save their work. --all leaves the jobs of other sessions alone,
    unless --session or --cloud names one.
    """
    if is_all == bool(names):
        raise click.UsageError("give the NAME of a job, or --all")
    if len(names) == 1:
        stopped = _stop(Job(names[0], session_of(names[0], session)))
        if output == "json":
            print_json(stopped)
        return 0
    wanted = dict.fromkeys(names or _running_jobs(session or "local"))
    if not wanted:
        print_message("No job runs.")
    return _stop_each(wanted, session, output)


def _stop_each(names: Iterable[str], session: str | None, output: str) -> int:
    """Stop jobs, the others all the same if one cannot be; return the exit code."""
    stopped: list[dict[str, str]] = []
    errors: list[LauncherError] = []
    for name in names:
        try:
            now = _stop(Job(name, session_of(name, session)))
        except LauncherError as error:
            errors.append(error)
            print_error(error)
            continue
        stopped.append(now)
    if output == "json":
        print_json({"jobs": stopped, **(described_error(errors[0]) if errors else {})})
    return errors[0].exit_code if errors else 0


def _running_jobs(session: str) -> list[str]:
    running = open_session(session).list_training_jobs(StatusEquals="InProgress")
    return [job["TrainingJobName"] for job in running["TrainingJobSummaries"]]


def _stop(job: Job) -> dict[str, str]:
    """Stop a job unless it has ended; return its name and status."""
    before = job.status
    if before in TERMINAL_STATUSES:
        print_message(f"Job {job.name} has already ended: {before}.")
        return {"name": job.name, "status": before}
    job.stop()
    print_message(f"Job {job.name} is stopping; check with `launcher status {job.name}`.")
    return {"name": job.name, "status": job.status}
