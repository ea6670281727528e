"""`launcher status`: show a job's progress or outcome."""

from __future__ import annotations

import click

from launcher.client.cli import completion_values
from launcher.client.cli.screen import print_record, print_summary
from launcher.client.cli.session_options import session_option
from launcher.client.cli.verb_output import with_output_option
from launcher.client.jobs.job import Job
from launcher.client.sessions.resolve import session_of


@click.command()
@click.argument("name", shell_complete=completion_values.jobs)
@click.option("-v", "--verbose", is_flag=True, help="Show how the job was made as well.")
@session_option
@with_output_option
def status(name: str, verbose: bool, session: str | None, output: str) -> int:
    """Show the progress or outcome of job NAME.

    Prints its status, hosts, data, metrics and model. The exit code is the job's own once it has
    ended; 0 while it runs.
    """
    summary = Job(name, session_of(name, session)).summary()
    print_summary(summary, output)
    if verbose and output == "text":
        print_record(summary["record"])
    return summary["exit_code"] or 0
