"""`launcher interrupt`: reclaim a job's spot instances, as AWS may at any time."""

from __future__ import annotations

import click

from launcher.client.cli.options import completion_values
from launcher.client.cli.options.local_job import session_of_local_job
from launcher.client.cli.screen.json_output import print_json
from launcher.client.cli.screen.verb_output import print_message, with_output_option
from launcher.client.jobs import Job


@click.command()
@click.argument("name", shell_complete=completion_values.jobs)
@with_output_option
def interrupt(name: str, output: str) -> int:
    """Reclaim the spot instances of job NAME.

    Its hosts get SIGTERM and 120 seconds. Then the job restarts on new hosts, with the
    contents of the checkpoint folder. Only for jobs with use_spot_instances.
    """
    session = session_of_local_job(name, "there, AWS alone takes spot instances back")
    session.interrupt_training_job(TrainingJobName=name)
    print_message(
        f"Job {name} is interrupted and restarts; follow it with `launcher logs -f {name}`."
    )
    if output == "json":
        print_json({"name": name, "status": Job(name, session).status})
    return 0
