"""The one door from a verb to the terminal: text of others passes it, and controls nothing."""

from __future__ import annotations

import click

from launcher.shared import printable


def echo(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Print a text, in which control characters other than colours are made visible."""
    click.echo(printable(str(text)), err=err, nl=nl)
