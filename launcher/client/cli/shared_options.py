"""Options that several verbs share."""

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
_DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Print the CreateTrainingJob request without sending it."
)
_RESOLVE = click.option(
    "--resolve",
    is_flag=True,
    help="With --dry-run: look up on AWS what the job leaves open, and check what it names.",
)
_UPLOAD = click.option(
    "--upload",
    is_flag=True,
    help="With --dry-run: also upload the code, so that any AWS client can send the request.",
)


def local_host_options(verb: Verb) -> Verb:
    """Add --isolation and --host-failure to a verb."""
    return _ISOLATION(_HOST_FAILURE(verb))


def dry_run_options(verb: Verb) -> Verb:
    """Add --dry-run to a verb, with the --resolve and --upload that modify it."""
    return _DRY_RUN(_RESOLVE(_UPLOAD(verb)))


#: --set, for verbs that take a job file.
changes_option = click.option(
    "--set",
    "changes",
    metavar="PATH=VALUE",
    multiple=True,
    help="Change a field of the job file. Repeatable.",
)

#: --cloud, for verbs that act on existing jobs.
cloud_option = click.option(
    "--cloud", is_flag=True, help="Look on SageMaker only, not on this machine."
)
