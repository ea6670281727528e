"""`launcher report`: write a report on a job as one HTML file."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from launcher.client.cli.options.session_options import job_argument, job_to_read, session_option
from launcher.client.cli.screen.verb_output import (
    echo,
    print_csv,
    print_json,
    print_message,
    with_data_option,
)
from launcher.client.page import report as report_on
from launcher.client.planning import Workload


@click.command()
@job_argument
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File to write, or to replace [default: NAME.html in this folder].",
)
@click.option(
    "--workload",
    "workload_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Workload of the plan, as `launcher plan measure` writes it; default: what the job shows.",
)
@click.option("--open", "is_opened", is_flag=True, help="Open the report in the browser.")
@session_option
@with_data_option
def report(
    name: str | None,
    out: Path | None,
    workload_file: Path | None,
    is_opened: bool,
    session: str | None,
    output: str,
) -> int:
    """Write a report on job NAME as one HTML file.

    It has the states and hosts over time, the parts of a step, the use of the machines, metrics,
    cost by group and what was idle, the diagnosis, events, and the plan for its workload with the
    job marked on it. The file loads nothing from a network, so it can be sent and kept. The path is
    printed on stdout. With -o json or csv its data are printed instead, as CSV the values of its
    charts, and a file is written only with --out or --open.
    """
    workload = Workload.from_yaml(workload_file) if workload_file else None
    job = job_to_read(name, session)
    found = report_on(job, workload=workload)
    if output == "json":
        print_json(found.to_plain())
    elif output == "csv":
        print_csv(found.metric_rows())
    if output != "text" and out is None and not is_opened:
        return 0
    file = found.write(out or Path(f"{job.name}.html"))
    if output == "text":
        echo(file)
    if is_opened and not webbrowser.open(file.resolve().as_uri()):
        print_message("no browser could be opened")
    return 0
