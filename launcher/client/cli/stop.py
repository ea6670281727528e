"""`launcher stop`: stop a job."""

from __future__ import annotations

import click

from launcher.client.cli import completion_values
from launcher.client.cli.json_output import print_json
from launcher.client.cli.session_options import session_option
from launcher.client.cli.verb_output import print_message, with_output_option
from launcher.client.jobs.job import Job
from launcher.client.sessions.base import TERMINAL_STATUSES
from launcher.client.sessions.resolve import session_of


@click.command()
@click.argument("name", shell_complete=completion_values.jobs)
@session_option
@with_output_option
def stop(name: str, session: str | None, output: str) -> int:
    """Stop job NAME.

    Its hosts get 120 seconds to save their work.
    """
    job = Job(name, session_of(name, session))
    before = job.status
    if before in TERMINAL_STATUSES:
        print_message(f"Job {name} has already ended: {before}.")
    else:
        job.stop()
        print_message(f"Job {name} is stopping; check with `launcher status {name}`.")
    if output == "json":
        print_json({"name": name, "status": job.status})
    return 0
