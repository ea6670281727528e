"""A job's summary on the terminal, or as JSON."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping

import click

from launcher.client.cli.screen.verb_output import echo, print_json, wants_colours
from launcher.client.jobs import job_record_text, summary_text
from launcher.client.show import NOTE_COLUMN
from launcher.shared import printable


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
    _print(job_record_text(record))


def wrapped(text: str, width: int) -> str:
    """Return a text whose long lines continue below their value, broken at blanks."""
    return "\n".join("\n".join(_lines(line, width)) for line in text.split("\n"))


def _lines(line: str, width: int) -> list[str]:
    lines = [""]
    for word in re.findall(r" *[^ ]+", line.rstrip(" ")):
        if lines[-1] and _columns(lines[-1] + word) > width:
            lines.append(" " * NOTE_COLUMN + word.lstrip(" "))
        else:
            lines[-1] += word
    return lines


def _columns(text: str) -> int:
    """Return how many columns a text takes on a terminal, on which its colours take none."""
    plain = click.unstyle(text)
    if plain.isascii():
        return len(plain)
    from rich.cells import cell_len  # rich is slow to import

    return cell_len(plain)


def _print(styled: str) -> None:
    text = printable(styled, keep_styles=wants_colours())
    echo(wrapped(text, _width()) if sys.stdout.isatty() else text)


def _width() -> int:
    return shutil.get_terminal_size().columns
