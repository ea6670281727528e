"""`launcher logs`: print the logs of a job's hosts."""

from __future__ import annotations

import re
from datetime import datetime, timezone

import click

from launcher.client.cli import completion_values
from launcher.client.cli.age_option import age_option
from launcher.client.cli.ctrl_c import print_detached
from launcher.client.cli.follow_output import print_notice
from launcher.client.cli.json_output import print_json_line
from launcher.client.cli.line_selection import LineSelection, parse_pattern
from launcher.client.cli.live_view import LinePrinter
from launcher.client.cli.session_options import session_option
from launcher.client.cli.shared_options import verbose_option
from launcher.client.cli.verb_output import with_output_option
from launcher.client.jobs.job import Job
from launcher.client.jobs.log_line import LogLine
from launcher.client.jobs.summary import EXIT_CODES
from launcher.client.sessions.resolve import session_of


@click.command()
@click.argument("name", shell_complete=completion_values.jobs)
@click.option("-f", "--follow", is_flag=True, help="Follow the logs until the job ends.")
@click.option(
    "--group", help="Only the hosts of this group.", shell_complete=completion_values.groups
)
@click.option(
    "--host", help="Only this host, for example algo-2.", shell_complete=completion_values.hosts
)
@click.option("--tail", type=click.IntRange(min=0), help="Only the last lines, this many.")
@age_option("Only lines printed within this time, for example 30s, 10m or 2h.")
@click.option(
    "--grep",
    "pattern",
    callback=parse_pattern,
    metavar="REGEX",
    help="Only lines in which this is found.",
)
@click.option("--timestamps", is_flag=True, help="Put the local time in front of each line.")
@verbose_option
@session_option
@with_output_option
def logs(
    name: str,
    follow: bool,
    group: str | None,
    host: str | None,
    tail: int | None,
    since: datetime | None,
    pattern: re.Pattern[str] | None,
    timestamps: bool,
    verbose: bool,
    session: str | None,
    output: str,
) -> int:
    """Print the logs of job NAME.

    Lines are ordered by time, each with its group and host in front. With -o json every line is one
    JSON object; Launcher's own lines add their name as "event" and their "fields". With -f, the
    exit code is the job's.
    """
    job = Job(name, session_of(name, session))
    print_line = LinePrinter(job, click.echo, verbose=verbose, with_time=timestamps)
    is_text = output == "text"
    lines = LineSelection(
        show=print_line if is_text else _print_as_json,
        is_shown=print_line.shows if is_text else lambda _: True,
        since=since,
        pattern=pattern,
        tail=tail,
    )
    try:
        for line in job.logs(
            follow=follow,
            group=group,
            host=host,
            notices=print_notice,
            polls=lambda _: lines.release(),
        ):
            lines(line)
    except KeyboardInterrupt:
        print_detached(name)
        return 0
    lines.release()
    return EXIT_CODES.get(job.status, 0) if follow else 0


def _print_as_json(line: LogLine) -> None:
    described: dict[str, object] = {
        "time": datetime.fromtimestamp(line.time, tz=timezone.utc),
        "group": line.group,
        "host": line.host,
        "text": line.text,
    }
    if (event := line.event) is not None:
        described["event"], described["fields"] = event
    print_json_line(described)
