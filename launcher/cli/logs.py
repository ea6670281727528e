"""launcher logs: what the hosts of a job printed."""

from __future__ import annotations

import json

import click

from launcher.cli import candidates
from launcher.cli.answer import answers
from launcher.cli.ctrl_c import tell_detached
from launcher.cli.follow import LinePrinter, tell_notice
from launcher.cli.options import cloud_option
from launcher.job import Job
from launcher.sessions.finding import session_of


@click.command()
@click.argument("name", shell_complete=candidates.jobs)
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends.")
@click.option("--group", help="Only the hosts of this group.", shell_complete=candidates.groups)
@click.option("--host", help="Only this host, for example algo-2.", shell_complete=candidates.hosts)
@cloud_option
@answers
def logs(
    name: str, follow: bool, group: str | None, host: str | None, cloud: bool, output: str
) -> int:
    """Print what the hosts of job NAME printed.

    The lines of all hosts come by time, each behind its group and host. With -o json every line is
    one JSON object.
    """
    job = Job(name, session_of(name, in_cloud=cloud))
    show = LinePrinter(job, to_stderr=False)
    try:
        for line in job.logs(follow=follow, group=group, host=host, notices=tell_notice):
            if output == "json":
                click.echo(json.dumps({"group": line.group, "host": line.host, "text": line.text}))
            else:
                show(line)
    except KeyboardInterrupt:
        tell_detached(name)
    return 0
