"""Questions before something is done that cannot be undone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import click

from launcher.client.cli.options.shared_options import Verb
from launcher.client.cli.screen.verb_output import print_message
from launcher.errors import PlatformError


def yes_option(meaning: str) -> Callable[[Verb], Verb]:
    """Return the option that answers the questions of a verb."""
    return click.option("-y", "--yes", is_flag=True, help=meaning)


def can_ask() -> bool:
    """Return whether a user sits at the terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm_each(act: str, names: Sequence[str], *, yes: bool) -> None:
    """Show what a verb ends, removes or replaces, and ask unless `yes`.

    act: the verb, such as "stop". Raises PlatformError where nobody can be asked, and for a no.
    """
    if not names:
        return
    print_message("\n  ".join((f"To {act}:", *names)))
    if yes:
        return
    if not can_ask():
        raise PlatformError(
            f"nothing was done: --yes is needed to {act} them where stdin or stderr is not a "
            "terminal, which can be asked"
        )
    if not click.confirm(f"{act.capitalize()} all {len(names)}?", default=False, err=True):
        raise PlatformError("nothing was done")
