"""Options of jobs on this machine."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, cast

import click

from launcher.client.cli.options.shared_options import Verb
from launcher.client.sessions import Isolation
from launcher.shared import HostFailure

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
_PYTHON = click.option(
    "--python",
    metavar="PATH",
    help="With a local job: the interpreter of its hosts, or its virtual environment's folder.",
)


def local_host_options(verb: Verb) -> Verb:
    """Add --isolation and --host-failure to a verb."""
    return _ISOLATION(_HOST_FAILURE(verb))


def local_run_options(verb: Verb) -> Verb:
    """Add the options of local jobs to a verb, which gets them as `local`."""

    @functools.wraps(verb)
    def command(
        *,
        isolation: str | None,
        host_failure: str,
        no_install: bool,
        python: str | None,
        **arguments: Any,
    ) -> Any:
        chosen = LocalChoices(isolation, host_failure, is_installing=not no_install, python=python)
        return verb(local=chosen, **arguments)

    return cast(Verb, local_host_options(_NO_INSTALL(_PYTHON(command))))


@dataclass(frozen=True)
class LocalChoices:
    """Choices for the hosts of a local job.

    isolation: None for the best that works here. python: None for the running interpreter.
    """

    isolation: str | None
    host_failure: str
    is_installing: bool
    python: str | None

    def session_arguments(self, session: str) -> dict[str, Any]:
        """Return the arguments of a session of this name; none if it is not the local one."""
        if session == "local":
            return {
                "isolation": self.isolation,
                "host_failure": self.host_failure,
                "install": self.is_installing,
                "python": self.python,
            }
        for option, is_given in (
            ("--isolation", self.isolation),
            ("--host-failure", self.host_failure != HostFailure.FAIL.value),
            ("--no-install", not self.is_installing),
            ("--python", self.python),
        ):
            if is_given:
                raise click.UsageError(f"{option} goes with a local job")
        return {}
