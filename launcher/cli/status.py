"""`launcher status`: show a job's progress or outcome."""

from __future__ import annotations

import click

from launcher.cli import candidates
from launcher.cli.answer import answers
from launcher.cli.options import cloud_option
from launcher.cli.screen import print_summary
from launcher.job import Job
from launcher.sessions.finding import session_of


@click.command()
@click.argument("name", shell_complete=candidates.jobs)
@cloud_option
@answers
def status(name: str, cloud: bool, output: str) -> int:
    """Show how job NAME stands.

    Prints its status, hosts, data, metrics and model. The exit code is the job's own once it has
    ended; 0 while it runs.
    """
    summary = Job(name, session_of(name, in_cloud=cloud)).summary()
    print_summary(summary, output)
    return summary["exit_code"] or 0
