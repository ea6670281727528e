"""The options that choose a session: its name in the registry, or a short form of the name."""

from __future__ import annotations

from collections.abc import Callable

import click

from launcher.client.cli.options import completion_values
from launcher.client.cli.options.shared_options import Verb


def session_option(verb: Verb) -> Verb:
    """Add --session, and --cloud for SageMaker, to a verb of existing jobs."""
    named = _named("Look on this session only: local, aws, or one of an installed package.")
    return named(_short("--cloud", "aws", "Look on SageMaker only, not on this machine.")(verb))


def session_of_run_option(verb: Verb) -> Verb:
    """Add --session, and --local for this machine, to the verb that runs a job."""
    named = _named("Run on this session: local, aws, or one of an installed package.")
    local = "Run on this machine; instance types are then only names."
    return named(_short("--local", "local", local)(verb))


def session_of_check_option(verb: Verb) -> Verb:
    """Add --session, and --cloud for SageMaker, to the verb that checks a job."""
    named = _named(
        "Check a job for this session: local, aws, or one of an installed package [default: local]."
    )
    return named(_short("--cloud", "aws", "Check a job for AWS instead of this machine.")(verb))


def _named(meaning: str) -> Callable[[Verb], Verb]:
    return click.option(
        "--session",
        metavar="NAME",
        is_eager=True,  # known before its short form is read
        help=meaning,
        shell_complete=completion_values.sessions,
    )


def _short(option: str, name: str, meaning: str) -> Callable[[Verb], Verb]:
    """Return an option that means --session NAME."""

    def choose(context: click.Context, _parameter: click.Parameter, is_given: bool) -> None:
        if not is_given:
            return
        if context.params.get("session") not in (None, name):
            raise click.UsageError(f"{option} means --session {name}: give one of the two")
        context.params["session"] = name

    return click.option(option, is_flag=True, expose_value=False, callback=choose, help=meaning)
