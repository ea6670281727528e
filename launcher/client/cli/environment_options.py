"""Variables of a job's environment, from the command line and from a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import click

from launcher.client.cli.shared_options import Verb
from launcher.client.spec import JobSpec
from launcher.client.spec.bounded_yaml import LimitExceeded, read_bounded
from launcher.shared.secret_origins import FROM_ENVIRONMENT


def environment_options(verb: Verb) -> Verb:
    """Add --env and --env-file to a verb, which gets them as `variables`, and --secret."""
    one = click.option(
        "--env",
        "variables",
        metavar="NAME=VALUE",
        multiple=True,
        callback=_read_variables,
        help="Add a variable to the job's environment. Repeatable.",
    )
    file = click.option(
        "--env-file",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        is_eager=True,  # read before --env, which overrides it
        expose_value=False,
        callback=_keep_file,
        help="Add the variables of a file to it, one NAME=VALUE a line.",
    )
    secret = click.option(
        "--secret",
        "secrets",
        metavar="NAME[=ARN]",
        multiple=True,
        callback=_read_secrets,
        help="Add a secret variable, of your environment or of AWS Secrets Manager. Repeatable.",
    )
    return file(one(secret(verb)))


def with_variables(spec: JobSpec, variables: dict[str, str], secrets: dict[str, str]) -> JobSpec:
    """Return the spec with more variables in its environment, and more secrets."""
    return dataclasses.replace(
        spec,
        environment={**spec.environment, **variables},
        secrets={**spec.secrets, **secrets},
    )


def _read_secrets(
    _context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    """Return the source of each secret; the rules refuse a bare value."""
    pairs = (text.partition("=") for text in given)
    return {name: source if sign else FROM_ENVIRONMENT for name, sign, source in pairs}


def _keep_file(context: click.Context, _parameter: click.Parameter, file: Path | None) -> None:
    context.meta[__name__] = file


def _read_variables(
    context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
) -> dict[str, str]:
    file: Path | None = context.meta.get(__name__)
    return dict([*(() if file is None else _of_file(file)), *map(_pair, given)])


def _of_file(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the variables of a file; "#" begins a comment, quotes around a value are dropped.

    A line that has none may be part of a secret, and is not shown.
    """
    try:
        content = read_bounded(file).removeprefix("\ufeff")
    except (LimitExceeded, OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{file} cannot be read: {error}") from error
    for number, line in enumerate(content.split("\n"), start=1):
        text = line.strip().removeprefix("export ")
        if text and not text.startswith("#"):
            name, sign, written = text.partition("=")
            if not sign or not name.strip():
                raise click.BadParameter(f"{file}:{number} is no NAME=VALUE: a value has one line")
            value = written.strip()
            is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            yield name.strip(), value[1:-1] if is_quoted else value


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise click.BadParameter(f"{text!r} in --env is no NAME=VALUE")
    return name.strip(), value
