"""`launcher report`: write a report on a job as one HTML file."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from launcher.client.cli import completion_values
from launcher.client.cli.session_options import session_option
from launcher.client.cli.terminal_output import echo
from launcher.client.cli.verb_output import print_message, with_exit_code
from launcher.client.jobs.job import Job
from launcher.client.planning.reporting.job_report import report as report_on
from launcher.client.sessions.resolve import session_of


@click.command()
@click.argument("name", shell_complete=completion_values.jobs)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File to write, or to replace [default: NAME.html in this folder].",
)
@click.option("--open", "is_opened", is_flag=True, help="Open the report in the browser.")
@session_option
@with_exit_code
def report(name: str, out: Path | None, is_opened: bool, session: str | None) -> int:
    """Write a report on job NAME as one HTML file.

    It has the states and hosts over time, the parts of a step, the use of the machines, metrics,
    cost by group and what was idle, the diagnosis, and events. The file loads nothing from a
    network, so it can be sent and kept. The path is printed on stdout.
    """
    file = report_on(Job(name, session_of(name, session))).write(out or Path(f"{name}.html"))
    echo(file)
    if is_opened and not webbrowser.open(file.resolve().as_uri()):
        print_message("no browser could be opened")
    return 0
