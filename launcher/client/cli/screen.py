"""A job's summary on the terminal, or as JSON."""

from __future__ import annotations

from collections.abc import Mapping

import click

from launcher.client.cli.json_output import print_json
from launcher.client.cli.printable import printable
from launcher.client.cli.verb_output import wants_colours
from launcher.client.jobs.summary_text import summary_text


def print_summary(summary: Mapping[str, object], output: str, *, is_followed: bool = False) -> None:
    """Print a job's summary as the answer of a verb, in the form that `-o` selects.

    is_followed: the user has just seen what the job's hosts printed.
    """
    if output == "json":
        print_json(summary)
    else:
        text = summary_text(summary, is_followed=is_followed, style=click.style)
        click.echo(printable(text, keep_styles=wants_colours()))
