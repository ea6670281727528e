"""`launcher status`: show a job's progress or outcome."""

from __future__ import annotations

import click

from launcher.client.cli.options.session_options import job_argument, job_to_read, session_option
from launcher.client.cli.screen.job_output import print_record, print_summary, watch
from launcher.client.cli.screen.verb_output import with_output_option


@click.command()
@job_argument
@click.option("--watch", "is_watched", is_flag=True, help="Show it live until the job ends.")
@click.option("-v", "--verbose", is_flag=True, help="Show how the job was made as well.")
@session_option
@with_output_option
def status(
    name: str | None, is_watched: bool, verbose: bool, session: str | None, output: str
) -> int:
    """Show the progress or outcome of job NAME.

    Prints its status, hosts, data, metrics and model; for a failed job, the cause. The exit code is
    the job's own once it has ended; 0 while it runs. With --watch, its state is drawn anew until it
    ends, without what its programs print; Ctrl-C leaves it running.
    """
    named = job_to_read(name, session)
    job = watch(named) if is_watched else named
    if job is None:
        return 0
    summary = job.summary()
    print_summary(summary, output)
    if verbose and output == "text":
        print_record(summary["record"])
    return summary["exit_code"] or 0
