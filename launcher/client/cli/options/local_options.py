"""Options of jobs on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from launcher.client.cli.options.shared_options import gathered, options
from launcher.client.sessions import Isolation
from launcher.shared import HostFailure

#: --isolation and --host-failure.
local_host_options = options(
    click.option(
        "--isolation",
        type=click.Choice([kind.value for kind in Isolation]),
        help="How local hosts are isolated [default: sandbox where it works, else process].",
    ),
    click.option(
        "--host-failure",
        type=click.Choice([each.value for each in HostFailure]),
        default=HostFailure.FAIL.value,
        help="When a local host dies: fail the job, or continue while its group has other hosts.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class LocalChoices:
    """Choices for the hosts of a local job.

    isolation: None for the best that works here. python: None for the running interpreter.
    """

    isolation: str | None
    host_failure: str
    no_install: bool
    python: str | None

    def session_arguments(self, session: str) -> dict[str, Any]:
        """Return the arguments of a session of this name; none if it is not the local one."""
        if session == "local":
            return {
                "isolation": self.isolation,
                "host_failure": self.host_failure,
                "install": not self.no_install,
                "python": self.python,
            }
        for option, is_given in (
            ("--isolation", self.isolation),
            ("--host-failure", self.host_failure != HostFailure.FAIL.value),
            ("--no-install", self.no_install),
            ("--python", self.python),
        ):
            if is_given:
                raise click.UsageError(f"{option} goes with a local job")
        return {}


#: The options of local jobs, which a verb gets as one `local`.
local_run_options = gathered(
    "local",
    LocalChoices,
    local_host_options,
    click.option(
        "--no-install",
        is_flag=True,
        help="With a local job: do not install requirements.txt; warn about what is missing.",
    ),
    click.option(
        "--python",
        metavar="PATH",
        help="With a local job: the interpreter of its hosts, or its virtual environment's folder.",
    ),
)
