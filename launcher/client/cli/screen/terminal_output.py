"""Text, JSON and CSV that verbs print: text of others passes one door, and controls nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

from launcher.client.show import csv_lines, json_text
from launcher.shared import printable


def echo(text: object, *, err: bool = False, nl: bool = True) -> None:
    """Print a text, in which control characters other than colours are made visible."""
    click.echo(printable(str(text)), err=err, nl=nl)


def print_json(value: object) -> None:
    """Print the result as JSON."""
    click.echo(json_text(value))


def print_json_line(value: object) -> None:
    """Print a value as JSON on one line, for a result of many lines."""
    click.echo(json_text(value, indent=None))


def print_csv(items: Iterable[Mapping[str, object]]) -> None:
    """Print items as rows of CSV, with a column for each value."""
    for line in csv_lines(items):
        echo(line)
