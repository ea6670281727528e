"""`launcher endpoint`: serve AWS clients from this machine."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from launcher.client.cli.options.local_options import LocalChoices, local_run_options
from launcher.client.cli.screen.verb_output import print_json, print_message, with_output_option
from launcher.client.endpoint import load_server
from launcher.client.home import home_folder
from launcher.client.sessions import LocalSession


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=4599,
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option(
    "--root",
    type=click.Path(path_type=Path),
    help="Folder for jobs, objects and keys [default: ~/.launcher/endpoint].",
)
@click.option(
    "--access-key",
    metavar="ID:SECRET",
    help="Access key that clients sign with; default: a random one, which is stored.",
)
@click.option(
    "--rate",
    "rates",
    metavar="OPERATION=N",
    multiple=True,
    help="Requests per second of an API operation, or inf; for example GetLogEvents=2. Repeatable.",
)
@local_run_options
@with_output_option
def endpoint(
    port: int,
    root: Path | None,
    access_key: str | None,
    rates: tuple[str, ...],
    local: LocalChoices,
    output: str,
) -> int:
    """Serve SageMaker's API on this machine.

    Any AWS client runs its training jobs here; S3, CloudWatch Logs, IAM and STS are included.
    Clients find it by the shell variables that are printed on stdout. It runs until Ctrl-C; jobs
    that are running continue. It needs pip install 'hetero-launcher[endpoint]'.
    """
    arguments = local.session_arguments("local")
    server = load_server()
    setup = server.Setup(
        root=(root or home_folder() / "endpoint").expanduser().resolve(),
        port=port,
        rates=server.parse_rates(rates),
        access_key=server.parse_access_key(access_key) if access_key else None,
        local=arguments,
    )
    with server.open_endpoint(setup) as running:
        print_message(f"Serving {setup.root} at {running.url}; Ctrl-C stops it.")
        print_message(f"Role: {running.role_arn}")
        print_message(f"Jobs run on this machine {_place_of_jobs(arguments)}.")
        print_message("Set these variables in the shell of an AWS client:")
        if output == "json":
            print_json(running.environment())
        else:
            for variable in running.environment().items():
                click.echo("export {}={}".format(*map(shlex.quote, variable)))
        running.serve()
    print_message("\nThe endpoint has stopped.")
    print_message("Running jobs continue; start it again to serve them.")
    return 0


def _place_of_jobs(arguments: dict[str, Any]) -> str:
    if LocalSession(**arguments).platform.runs_image:
        return f"in containers of {arguments['image'] or 'their images'}"
    return "in this Python; images are not pulled"
