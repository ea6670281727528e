"""`launcher wait`: wait for jobs to end."""

from __future__ import annotations

import click

from launcher.client.cli import completion_values
from launcher.client.cli.follow_output import print_notice
from launcher.client.cli.json_output import print_json
from launcher.client.cli.session_options import session_option
from launcher.client.cli.terminal_output import echo
from launcher.client.cli.verb_output import with_output_option
from launcher.client.jobs.job import Job
from launcher.client.jobs.retrying_session import with_resume_hint
from launcher.client.jobs.summary import EXIT_CODES
from launcher.client.sessions.resolve import session_of


@click.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completion_values.jobs)
@click.option("--timeout", type=click.FloatRange(min=0), help="Wait at most this many seconds.")
@session_option
@with_output_option
def wait(names: tuple[str, ...], timeout: float | None, session: str | None, output: str) -> int:
    """Wait until jobs NAMES have ended.

    Prints the status of each. The exit code is that of the first of them that did not complete.
    """
    jobs = [Job(name, session_of(name, session)) for name in names]
    statuses = {}
    for job in jobs:
        with with_resume_hint(job.name):
            now = job.wait(notices=print_notice, timeout=timeout).description(print_notice)
        statuses[job.name] = now["TrainingJobStatus"]
        if output == "text":
            echo(f"{job.name}  {statuses[job.name]}")
    if output == "json":
        print_json({"jobs": [{"name": name, "status": each} for name, each in statuses.items()]})
    return next((code for each in statuses.values() if (code := EXIT_CODES.get(each))), 0)
