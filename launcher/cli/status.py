"""launcher status: how a job stands, or what became of it."""

from __future__ import annotations

import click

from launcher.cli import candidates
from launcher.cli.answer import answers, print_json
from launcher.cli.screen import summary_screen
from launcher.job import Job
from launcher.sessions.local import LocalSession


@click.command()
@click.argument("name", shell_complete=candidates.jobs)
@answers
def status(name: str, output: str) -> int:
    """Show how job NAME stands.

    That is its status, hosts, data, metrics and model. The exit code is the job's
    own once it has ended; 0 while it goes on.
    """
    summary = Job(name, LocalSession()).summary()
    if output == "json":
        print_json(summary)
    else:
        click.echo(summary_screen(summary))
    return summary["exit_code"] or 0
