"""`launcher exec`: a command, or a shell, in a running local host."""

from __future__ import annotations

import click

from launcher.client.cli.options import completion_values
from launcher.client.cli.options.session_options import session_of_local_job
from launcher.client.cli.screen.verb_output import with_exit_code

_SHELL = ("sh", "-c", "command -v bash >/dev/null && exec bash; exec sh")


@click.command("exec")
@click.argument("name", shell_complete=completion_values.jobs)
@click.option(
    "--host",
    default="algo-1",
    show_default=True,
    help="The host, for example algo-2.",
    shell_complete=completion_values.hosts,
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@with_exit_code
def exec_in_host(name: str, host: str, command: tuple[str, ...]) -> int:
    """Run COMMAND, or a shell, in a running host of local job NAME.

    It has the environment, the folder and the isolation of the host, and ends with it. Write -- in
    front of COMMAND. The exit code is the command's. Without COMMAND it is bash, or sh where there
    is none.
    """
    elsewhere = (
        "hosts on AWS are entered by the AWS CLI, if the job has enable_remote_debug: true: "
        f"aws ssm start-session --target sagemaker-training-job:{name}_{host}"
    )
    return session_of_local_job(name, elsewhere).run_in_host(name, host, command or _SHELL)
