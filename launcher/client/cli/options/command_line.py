"""The words of the command, for a job's record, without the values of environment variables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from launcher.shared import FROM_ENVIRONMENT, SECRET_ARN

_HIDDEN = "***"
#: Options whose value may hold that of a variable.
_CHANGES = ("--env", "--set", "--secret")


def keep_command_line(context: click.Context, words: Sequence[str]) -> None:
    """Keep the words behind "launcher" for the verb that they name."""
    context.meta[__name__] = ("launcher", *_without_secrets(words))


def command_line() -> tuple[str, ...]:
    """Return the words of the command, with "***" for the value of each environment variable."""
    words: tuple[str, ...] = click.get_current_context().meta.get(__name__, ())
    return words


def _without_secrets(words: Sequence[str]) -> Iterator[str]:
    option = ""
    for word in words:
        name, sign, value = word.partition("=")
        if option in _CHANGES:
            yield _hidden(option, word)
        elif sign and name in _CHANGES:
            yield f"{name}={_hidden(name, value)}"
        else:
            yield word
        option = "" if option in _CHANGES else word


def _hidden(option: str, change: str) -> str:
    """Return NAME=VALUE or PATH=VALUE without the value of a variable."""
    path, sign, source = change.partition("=")
    names = path.strip().split(".")
    is_variable = option == "--env" or names[0] == "environment" or "Environment" in names
    if option == "--secret" or names[0] == "secrets":
        is_variable = not SECRET_ARN.fullmatch(source) and source != FROM_ENVIRONMENT
    is_variable = is_variable or path.strip() == "extra_request"
    return f"{path}{sign}{_HIDDEN}" if is_variable and sign else change
