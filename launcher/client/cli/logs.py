"""`launcher logs`: print the logs of a job's hosts."""

from __future__ import annotations

from datetime import datetime, timezone

import click

from launcher.client.cli import completion_values
from launcher.client.cli.ctrl_c import print_detached
from launcher.client.cli.follow_output import LinePrinter, print_notice
from launcher.client.cli.json_output import print_json_line
from launcher.client.cli.session_options import session_option
from launcher.client.cli.verb_output import with_output_option
from launcher.client.jobs.job import Job
from launcher.client.jobs.log_line import LogLine
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
@session_option
@with_output_option
def logs(
    name: str, follow: bool, group: str | None, host: str | None, session: str | None, output: str
) -> int:
    """Print the logs of job NAME.

    Lines are ordered by time, each with its group and host in front. With -o json every line is one
    JSON object; Launcher's own lines add their name as "event" and their "fields".
    """
    job = Job(name, session_of(name, session))
    print_line = LinePrinter(job, to_stderr=False)
    try:
        for line in job.logs(follow=follow, group=group, host=host, notices=print_notice):
            if output == "json":
                print_json_line(_described(line))
            else:
                print_line(line)
    except KeyboardInterrupt:
        print_detached(name)
    return 0


def _described(line: LogLine) -> dict[str, object]:
    described: dict[str, object] = {
        "time": datetime.fromtimestamp(line.time, tz=timezone.utc),
        "group": line.group,
        "host": line.host,
        "text": line.text,
    }
    if (event := line.event) is not None:
        described["event"], described["fields"] = event
    return described
