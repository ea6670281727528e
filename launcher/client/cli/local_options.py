"""Options of jobs on this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from launcher.client.sessions.local import Isolation
from launcher.shared import HostFailure

Verb = TypeVar("Verb", bound=Callable[..., Any])

_ISOLATION = click.option(
    "--isolation",
    type=click.Choice([kind.value for kind in Isolation]),
    help="How local hosts are isolated [default: sandbox where it works, else process].",
)
_HOST_FAILURE = click.option(
    "--host-failure",
    type=click.Choice([each.value for each in HostFailure]),
    default=HostFailure.FAIL.value,
    help="When a local host dies: fail the job, or continue while its group has other hosts.",
)
_NO_INSTALL = click.option(
    "--no-install",
    is_flag=True,
    help="With a local job: do not install requirements.txt; warn about what is missing.",
)


def local_host_options(verb: Verb) -> Verb:
    """Add --isolation and --host-failure to a verb."""
    return _ISOLATION(_HOST_FAILURE(verb))


def local_run_options(verb: Verb) -> Verb:
    """Add the options of local hosts and --no-install to the verb that runs a job."""
    return local_host_options(_NO_INSTALL(verb))


def local_session_arguments(
    session: str, isolation: str | None, host_failure: str, no_install: bool
) -> dict[str, Any]:
    """Return the arguments of a session for the options of local jobs; none for other sessions."""
    if session == "local":
        return {"isolation": isolation, "host_failure": host_failure, "install": not no_install}
    if no_install:
        raise click.UsageError("--no-install goes with a local job")
    return {}
