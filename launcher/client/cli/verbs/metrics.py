"""`launcher metrics`: show the metrics of a job over time."""

from __future__ import annotations

from contextlib import closing

import click

from launcher.client.cli.options.session_options import job_argument, job_to_read, session_option
from launcher.client.cli.screen.ctrl_c import print_detached
from launcher.client.cli.screen.job_output import print_notice
from launcher.client.cli.screen.metric_output import metric_output, print_values
from launcher.client.cli.screen.verb_output import with_exit_code
from launcher.client.jobs import EXIT_CODES, Job, MetricReader, with_resume_hint
from launcher.client.sessions import metric_patterns


@click.command()
@job_argument
@click.option("-f", "--follow", is_flag=True, help="Follow the metrics until the job ends.")
@click.option("--name", "metric_names", multiple=True, help="Only this metric; may be repeated.")
@session_option
@click.option(
    "-o",
    "output",
    type=click.Choice(["text", "json", "csv"]),
    default="text",
    help="Output format.",
)
@with_exit_code
def metrics(
    name: str | None, follow: bool, metric_names: tuple[str, ...], session: str | None, output: str
) -> int:
    """Show the metrics of job NAME over time.

    These are its metric definitions and Launcher's own figures: CPU, memory and GPU of the hosts,
    and the progress of training and data. A terminal shows line charts, one for each metric and
    group, with a line for each host; elsewhere a table is printed. With -o json or csv, every value
    is one JSON object or row. With -f, the restarts that its platform makes are followed too, and
    the exit code is the job's.
    """
    job = job_to_read(name, session)
    if not follow:
        print_values(job.metric_series(metric_names or None), output)
        return 0
    return _follow(job, metric_names, output)


def _follow(first: Job, names: tuple[str, ...], output: str) -> int:
    job = first
    try:
        with with_resume_hint(first.name):
            now = first.description(print_notice)
            with closing(metric_output(output, first.name, list(metric_patterns(now)))) as shown:
                for job in first.attempts(print_notice):
                    reader = MetricReader(now, names or None, own=True)
                    for line in job.logs(
                        follow=True, notices=print_notice, polls=lambda _: shown.update()
                    ):
                        for record in reader.read(line):
                            shown.show(record)
            status = job.description(print_notice)["TrainingJobStatus"]
    except KeyboardInterrupt:
        print_detached(job.name)
        return 0
    return EXIT_CODES.get(status, 0)
