"""`launcher diagnose`: find what limits a job's steps, and what to change."""

from __future__ import annotations

import click

from launcher.client.cli.options.session_options import job_argument, job_to_read, session_option
from launcher.client.cli.screen.verb_output import echo, print_csv, print_json, with_data_option
from launcher.client.planning import diagnose as diagnose_job


@click.command()
@job_argument
@session_option
@with_data_option
def diagnose(name: str | None, session: str | None, output: str) -> int:
    """Say what limits the steps of job NAME, and what to change.

    A job is input-bound, compute-bound, communication-bound, storage-bound or imbalanced (one slow
    rank or host, which is named); without evidence of one, the answer is "not sure". It reads the
    job's logs and, on SageMaker, the use of its hosts in CloudWatch, and changes nothing. The
    changes are listed with what they cost and save, where the planner can predict it. With -o csv,
    each change is a row.
    """
    found = diagnose_job(job_to_read(name, session))
    if output == "json":
        print_json(found.to_plain())
    elif output == "csv":
        print_csv(found.rows())
    else:
        echo(str(found))
    return 0
