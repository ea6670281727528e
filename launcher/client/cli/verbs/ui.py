"""`launcher ui`: show the jobs in a browser, live."""

from __future__ import annotations

import contextlib
import webbrowser

import click

from launcher.client.cli.options.session_options import session_option
from launcher.client.cli.screen.verb_output import echo, print_message, with_exit_code
from launcher.client.page import PageServer
from launcher.client.sessions import open_session
from launcher.errors import PlatformError


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port to listen on [default: a free one].",
)
@click.option("--open/--no-open", "is_opened", default=True, help="Open the browser, or not.")
@session_option
@with_exit_code
def ui(port: int, is_opened: bool, session: str | None) -> int:
    """Show the jobs in a browser, live.

    Each job has a page: what it does or how it ended, its cost, its metrics, steps, hosts, logs and
    configuration; jobs that are ticked are compared. The address, printed on stdout, works once and
    on this machine alone. Nothing can be stopped or changed from it. Ctrl-C ends it.
    """
    try:
        server = PageServer(open_session(session or "local"), port)
    except OSError as error:
        raise PlatformError(
            f"cannot listen on port {port} of 127.0.0.1: {error.strerror}: stop the program that "
            "uses it, or choose another --port"
        ) from error
    with server:
        echo(server.url)
        print_message("This address works once; Ctrl-C ends it.")
        if is_opened:
            webbrowser.open(server.url)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve()
    return 0
