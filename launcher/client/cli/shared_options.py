"""Options that several verbs share."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeVar

import click

from launcher.client.cli import completion_values
from launcher.client.sessions.local import Isolation
from launcher.shared import HostFailure

Verb = TypeVar("Verb", bound=Callable[..., Any])

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGE = re.compile(rf"(\d+)([{''.join(_UNITS)}])")

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
    help="With a local job: leave requirements.txt alone, and say what is missing.",
)
_DRY_RUN = click.option(
    "--dry-run", is_flag=True, help="Print the CreateTrainingJob request without sending it."
)
_RESOLVE = click.option(
    "--resolve",
    is_flag=True,
    help="With --dry-run: look up unset fields on AWS, and check the resources that the job names.",
)
_UPLOAD = click.option(
    "--upload",
    is_flag=True,
    help="With --dry-run: also upload the code, so that any AWS client can send the request.",
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


def parse_age(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> datetime | None:
    """Convert an age, such as 90m, to the time that long ago; a callback of --since."""
    if text is None:
        return None
    match = _AGE.fullmatch(text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not an age: write 90m, 12h or 2d")
    try:
        return datetime.now(timezone.utc) - timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        raise click.BadParameter(f"{text!r} is too long ago: write 90m, 12h or 2d") from None


_JOB_FILE = click.argument(
    "job_file", type=click.Path(path_type=Path), shell_complete=completion_values.job_files
)


def job_file_options(verb: Verb) -> Verb:
    """Add JOB_FILE and --set to a verb."""
    return _JOB_FILE(changes_option(verb))
