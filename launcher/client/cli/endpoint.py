"""`launcher endpoint`: serve AWS clients from this machine."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from launcher.client.cli.shared_options import local_host_options
from launcher.client.cli.verb_output import print_json, print_message, with_output_option
from launcher.client.sessions.local.job_root import default_root
from launcher.errors import PlatformError

if TYPE_CHECKING:
    from launcher.client.endpoint.server import Endpoint, Setup


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=4599,
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
    help="Requests per second allowed for an API operation.",
)
@local_host_options
@with_output_option
def endpoint(
    port: int,
    root: Path | None,
    access_key: str | None,
    rates: tuple[str, ...],
    isolation: str | None,
    host_failure: str,
    output: str,
) -> int:
    """Serve SageMaker's API on this machine.

    Any AWS client runs its training jobs here; S3, CloudWatch Logs, IAM and STS
    are included. The lines on stdout print_message clients where it is.
    """
    server = _server()
    setup = server.Setup(
        root=(root or default_root() / "endpoint").expanduser().resolve(),
        port=port,
        rates={**server.AWS_RATES, **server.parse_rates(rates)},
        access_key=server.parse_access_key(access_key) if access_key else None,
        isolation=isolation,
        host_failure=host_failure,
    )
    with server.open_endpoint(setup) as running:
        _print_connection(running, setup, output)
        _serve(running)
    print_message("The endpoint has stopped. Running jobs continue; start it again to serve them.")
    return 0


def _server() -> Any:
    """Return the server module, which needs the `endpoint` extra."""
    try:
        from launcher.client.endpoint import server
    except ModuleNotFoundError as error:
        raise PlatformError(
            f"launcher endpoint needs {error.name}, which is not installed: "
            "pip install 'hetero-launcher[endpoint]'"
        ) from error
    return server


def _print_connection(running: Endpoint, setup: Setup, output: str) -> None:
    environment = running.environment()
    print_message(
        f"Serving {setup.root} at {running.url}; Ctrl-C stops it. Role: {running.role_arn}"
    )
    print_message("Jobs run on this machine in this Python; images are not pulled.")
    print_message("Set these variables in the shell of an AWS client:")
    if output == "json":
        print_json(environment)
        return
    for name, value in environment.items():
        click.echo(f"export {name}={value}")


def _serve(running: Endpoint) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        running.server.serve_forever()
    except KeyboardInterrupt:
        print_message("")
