"""Summary of a job on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from launcher.client.cli.json_output import print_json
from launcher.client.jobs.summary_text import summary_text

_COLOURS = {"Completed": "green", "Failed": "red", "Stopped": "yellow"}


def print_summary(summary: Mapping[str, Any], output: str) -> None:
    """Print a job's summary as the answer of a verb, in the form that `-o` selects."""
    if output == "json":
        print_json(summary)
        return
    colour = _COLOURS.get(summary["status"])
    status = click.style(summary["status"], fg=colour, bold=True)
    click.echo(summary_text(summary, status, click.style("  | ", dim=True)))
