"""`launcher compare`: put jobs side by side, with what the same work costs in each."""

from __future__ import annotations

import click

from launcher.client.cli.options import completion_values
from launcher.client.cli.options.session_options import job_to_read, session_option
from launcher.client.cli.screen.verb_output import echo, print_csv, print_json, with_data_option
from launcher.client.planning import compare as compare_jobs


@click.command()
@click.argument("names", nargs=-1, required=True, shell_complete=completion_values.jobs)
@session_option
@with_data_option
def compare(names: tuple[str, ...], session: str | None, output: str) -> int:
    """Put jobs NAMES side by side: step time, throughput, prices, and what was idle.

    The price of the same work is compared with that of the first job, with a 95 % interval from
    the step times of both. Prices are those of the instance types, also of jobs that ran on this
    machine, which are marked. With -o csv, each job is a row.
    """
    found = compare_jobs(*(job_to_read(name, session) for name in names))
    if output == "json":
        print_json(found.to_plain())
    elif output == "csv":
        print_csv(found.to_plain()["jobs"])
    else:
        echo(found.table)
    return 0
