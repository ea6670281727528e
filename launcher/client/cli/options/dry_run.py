"""--dry-run, and what goes with it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, cast

import click

from launcher.client.cli.options.shared_options import Verb
from launcher.client.sessions import Platform

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


@dataclass(frozen=True, kw_only=True)
class DryRun:
    """The wish for a dry run: nothing is sent if `is_wanted`.

    resolve: look up on AWS what the job leaves out. upload: store the job's code.
    """

    is_wanted: bool
    resolve: bool
    upload: bool

    @property
    def is_offline(self) -> bool:
        """True if AWS is not called."""
        return self.is_wanted and not (self.resolve or self.upload)

    def require_aws(self, platform: Platform) -> None:
        """Raise UsageError if what is wanted does not go with a job of this platform."""
        if (self.resolve or self.upload) and not (self.is_wanted and platform.uses_aws):
            raise click.UsageError("--resolve and --upload go with the --dry-run of a job for AWS")


def dry_run_options(verb: Verb) -> Verb:
    """Add --dry-run, --resolve and --upload to a verb, which gets them as one `dry_run`."""

    @functools.wraps(verb)
    def command(*, dry_run: bool, resolve: bool, upload: bool, **arguments: Any) -> Any:
        wanted = DryRun(is_wanted=dry_run, resolve=resolve, upload=upload)
        return verb(dry_run=wanted, **arguments)

    return cast(Verb, _DRY_RUN(_RESOLVE(_UPLOAD(command))))
