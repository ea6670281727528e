"""`launcher stop`: stop jobs, or all jobs."""

from __future__ import annotations

import click

from launcher.client.cli import completion_values
from launcher.client.cli.json_output import print_json
from launcher.client.cli.session_options import session_option
from launcher.client.cli.verb_output import print_message, with_output_option
from launcher.client.jobs.job import Job
from launcher.client.sessions.base import TERMINAL_STATUSES
from launcher.client.sessions.registry import open_session
from launcher.client.sessions.resolve import session_of


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
    named = [Job(name, session_of(name, session)) for name in dict.fromkeys(names)]
    jobs = named or _running_jobs(session or "local")
    stopped = [{"name": job.name, "status": _stop(job)} for job in jobs]
    if not stopped:
        print_message("No job runs.")
    if output == "json":
        print_json(stopped[0] if len(named) == 1 else {"jobs": stopped})
    return 0


def _running_jobs(session: str) -> list[Job]:
    asked = open_session(session)
    running = asked.list_training_jobs(StatusEquals="InProgress")["TrainingJobSummaries"]
    return [Job(job["TrainingJobName"], asked) for job in running]


def _stop(job: Job) -> str:
    """Stop a job unless it has ended; return its status."""
    before = job.status
    if before in TERMINAL_STATUSES:
        print_message(f"Job {job.name} has already ended: {before}.")
        return before
    job.stop()
    print_message(f"Job {job.name} is stopping; check with `launcher status {job.name}`.")
    return job.status
