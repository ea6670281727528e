"""A job's summary on the terminal, or as JSON."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Mapping

import click

from launcher.client.cli.json_output import print_json
from launcher.client.cli.terminal_output import echo
from launcher.client.cli.verb_output import wants_colours
from launcher.client.jobs.record_text import record_text
from launcher.client.jobs.summary_text import VALUE_COLUMN, summary_text
from launcher.shared.printable import printable


def print_summary(summary: Mapping[str, object], output: str, *, is_followed: bool = False) -> None:
    """Print a job's summary as the answer of a verb, in the form that `-o` selects.

    is_followed: the user has just seen what the job's hosts printed.
    """
    if output == "json":
        print_json(summary)
        return
    _print(summary_text(summary, is_followed=is_followed, style=click.style))


def print_record(record: Mapping[str, object] | None) -> None:
    """Print how a job was made, below its summary."""
    _print(record_text(record))


def wrapped(text: str, width: int) -> str:
    """Return a text whose long lines continue below their value, broken at blanks."""
    lines = (
        textwrap.wrap(
            line,
            width,
            subsequent_indent=" " * VALUE_COLUMN,
            break_long_words=False,
            break_on_hyphens=False,
        )
        if len(line) > width
        else [line]
        for line in text.split("\n")
    )
    return "\n".join(part for parts in lines for part in parts)


def _print(styled: str) -> None:
    text = printable(styled, keep_styles=wants_colours())
    echo(wrapped(text, _width()) if sys.stdout.isatty() else text)


def _width() -> int:
    return shutil.get_terminal_size().columns
