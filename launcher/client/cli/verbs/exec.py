"""`launcher exec` and `launcher shell`: a command, or a shell, in a running local host."""

from __future__ import annotations

import click

from launcher.client.cli.options import completion_values
from launcher.client.cli.options.local_job import session_of_local_job
from launcher.client.cli.options.shared_options import Verb
from launcher.client.cli.screen.verb_output import with_exit_code


def _host_option(verb: Verb) -> Verb:
    return click.option(
        "--host",
        default="algo-1",
        show_default=True,
        help="The host, for example algo-2.",
        shell_complete=completion_values.hosts,
    )(verb)


def _hint_for_aws(name: str, host: str) -> str:
    return (
        "hosts on AWS are entered by the AWS CLI, if the job has enable_remote_debug: true: "
        f"aws ssm start-session --target sagemaker-training-job:{name}_{host}"
    )


@click.command("exec")
@click.argument("name", shell_complete=completion_values.jobs)
@_host_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@with_exit_code
def exec_in_host(name: str, host: str, command: tuple[str, ...]) -> int:
    """Run COMMAND in a running host of local job NAME.

    It has the environment, the folder and the isolation of the host, and ends with it. Write -- in
    front of it. The exit code is the command's.
    """
    return session_of_local_job(name, _hint_for_aws(name, host)).run_in_host(name, host, command)


@click.command()
@click.argument("name", shell_complete=completion_values.jobs)
@_host_option
@with_exit_code
def shell(name: str, host: str) -> int:
    """Open a shell in a running host of local job NAME.

    It is bash, or sh where there is none; otherwise as `launcher exec`.
    """
    words = ("sh", "-c", "command -v bash >/dev/null && exec bash; exec sh")
    return session_of_local_job(name, _hint_for_aws(name, host)).run_in_host(name, host, words)
