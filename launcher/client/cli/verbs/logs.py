"""`launcher logs`: print the logs of a job's hosts."""

from __future__ import annotations

import click

from launcher.client.cli.options import completion_values
from launcher.client.cli.options.session_options import job_argument, job_to_read, session_option
from launcher.client.cli.options.shared_options import verbose_option
from launcher.client.cli.screen.ctrl_c import print_detached
from launcher.client.cli.screen.job_output import print_notice
from launcher.client.cli.screen.line_printer import (
    JsonLinePrinter,
    LinePrinter,
    LineSelection,
    Printer,
    WantedLines,
    line_selection_options,
)
from launcher.client.cli.screen.verb_output import echo, with_output_option
from launcher.client.jobs import EXIT_CODES, host_groups, with_resume_hint


@click.command()
@job_argument
@click.option("-f", "--follow", is_flag=True, help="Follow the logs until the job ends.")
@click.option(
    "--group", help="Only the hosts of this group.", shell_complete=completion_values.groups
)
@click.option(
    "--host", help="Only this host, for example algo-2.", shell_complete=completion_values.hosts
)
@line_selection_options
@click.option("--timestamps", is_flag=True, help="Put the local time in front of each line.")
@verbose_option
@session_option
@with_output_option
def logs(
    name: str | None,
    follow: bool,
    group: str | None,
    host: str | None,
    wanted: WantedLines,
    timestamps: bool,
    verbose: bool,
    session: str | None,
    output: str,
) -> int:
    """Print the logs of job NAME.

    Lines are ordered by time, each with its group and host in front. With -o json every line is one
    JSON object; Launcher's own lines add their name as "event" and their "fields". With -f, the
    restarts that its platform makes are followed too, and the exit code is the job's.
    """
    job = first = job_to_read(name, session)
    try:
        with with_resume_hint(first.name):
            printer: Printer = JsonLinePrinter()
            if output == "text":
                groups = host_groups(first.description(print_notice if follow else None))
                printer = LinePrinter(groups, echo, verbose=verbose, with_time=timestamps)
            lines = LineSelection(wanted, printer)
            polls = lines.after_poll
            for job in first.attempts(print_notice) if follow else (first,):
                for line in job.logs(
                    follow=follow, group=group, host=host, notices=print_notice, polls=polls
                ):
                    lines(line)
                lines.release()
            status = job.description(print_notice)["TrainingJobStatus"] if follow else ""
    except KeyboardInterrupt:
        print_detached(job.name)
        return 0
    return EXIT_CODES.get(status, 0)
