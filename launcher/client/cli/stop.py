"""`launcher stop`: ask a job to end."""

from __future__ import annotations

import click

from launcher.client.cli import completion_values
from launcher.client.cli.shared_options import cloud_option
from launcher.client.cli.verb_output import answers, print_json, tell
from launcher.client.jobs.job import Job
from launcher.client.sessions.base import TERMINAL_STATUSES
from launcher.client.sessions.resolve import session_of


@click.command()
@click.argument("name", shell_complete=completion_values.jobs)
@cloud_option
@answers
def stop(name: str, cloud: bool, output: str) -> int:
    """Stop job NAME.

    Its hosts get 120 seconds to save their work.
    """
    job = Job(name, session_of(name, in_cloud=cloud))
    before = job.status
    if before in TERMINAL_STATUSES:
        tell(f"Job {name} has ended already: {before}.")
    else:
        job.stop()
        tell(f"Job {name} is stopping; `launcher status {name}` says when it has.")
    if output == "json":
        print_json({"name": name, "status": job.status})
    return 0
