"""Options that several verbs share."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from launcher.client.cli.options import completion_values
from launcher.client.spec import seconds_of

Verb = TypeVar("Verb", bound=Callable[..., Any])

#: -v, for verbs that show what hosts print.
verbose_option = click.option(
    "-v", "--verbose", is_flag=True, help="Show Launcher's own events as well."
)
#: --set, for verbs that send a job.
changes_option = click.option(
    "--set",
    "changes",
    metavar="PATH=VALUE",
    multiple=True,
    help="Change a field of the job. Repeatable.",
)


def options(*each: Callable[[Any], Any]) -> Callable[[Verb], Verb]:
    """Return the decorator that adds options to a verb, whose help shows them in this order."""

    def add(verb: Verb) -> Verb:
        for option in reversed(each):
            verb = option(verb)
        return verb

    return add


def gathered(name: str, kind: type[Any], *each: Callable[[Any], Any]) -> Callable[[Verb], Verb]:
    """Return the decorator that adds options to a verb, which gets their values as one `name`.

    kind: a dataclass whose fields have the names of the options' values.
    """

    def add(verb: Verb) -> Verb:
        @functools.wraps(verb)
        def command(**arguments: Any) -> Any:
            values = {part.name: arguments.pop(part.name) for part in dataclasses.fields(kind)}
            return verb(**{name: kind(**values)}, **arguments)

        return options(*each)(cast(Verb, command))

    return add


def removed_option(name: str, instead: str) -> Callable[[Verb], Verb]:
    """Refuse an option of an earlier version, with what to do instead."""

    def refuse(_context: click.Context, _parameter: click.Parameter, value: str | None) -> None:
        if value is not None:
            raise click.UsageError(f"there is no {name} any more: {instead}")

    return click.option(name, hidden=True, expose_value=False, callback=refuse)


def _job_file(*, default: Path | None) -> Callable[[Verb], Verb]:
    return click.argument(
        "job_file",
        type=click.Path(path_type=Path),
        default=default,
        required=False,
        callback=_find_job_file,
        shell_complete=completion_values.job_files,
    )


def _find_job_file(
    _context: click.Context, _parameter: click.Parameter, path: Path | None
) -> Path | None:
    """Return the job file, which a folder has as job.yaml; a callback of JOB_FILE."""
    return path / "job.yaml" if path is not None and path.is_dir() else path


#: JOB_FILE, by default that of this folder, and --set.
job_file_options = options(_job_file(default=Path()), changes_option)
#: JOB_FILE, which may be left out, and --set.
optional_job_file_options = options(_job_file(default=None), changes_option)


def _parse_age(
    _context: click.Context, _parameter: click.Parameter, text: str | None
) -> datetime | None:
    """Convert an age, such as 90m, to the time that long ago; a callback of --since."""
    if text is None:
        return None
    seconds = seconds_of(text)
    if seconds is None:
        raise click.BadParameter(f"{text!r} is not an age: write 90m, 12h or 2d")
    try:
        return datetime.now(timezone.utc) - timedelta(seconds=seconds)
    except OverflowError:
        raise click.BadParameter(f"{text!r} is too long ago: write 90m, 12h or 2d") from None


def age_option(help_text: str, *, name: str = "--since") -> Callable[[Verb], Verb]:
    """Return the decorator that adds an option for an age to a verb, which gets a time."""
    return click.option(name, callback=_parse_age, metavar="AGE", help=help_text)
