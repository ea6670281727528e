"""Output of `launcher check --config` and `--schema`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from launcher.client.cli.screen.verb_output import echo, print_json
from launcher.client.request import read_job
from launcher.client.sessions import default_sources, defaults_files, read_defaults, value_sources
from launcher.client.show import note_lines
from launcher.client.spec import job_schema

_NOTE_COLUMN = 34


def print_config(job_file: Path | None, changes: tuple[str, ...], output: str) -> int:
    """Print the defaults from files, or the values of a job, and where each comes from."""
    defaults = read_defaults()
    if job_file:
        spec = read_job(job_file, changes)
        rows = list(value_sources(spec, str(job_file), defaults))
    else:
        rows = list(default_sources(defaults))
    files = [{"file": str(f.path), "exists": f.path.is_file()} for f in defaults_files()]
    if output == "json":
        print_json({"values": [vars(row) for row in rows], "files": files})
        return 0
    notes = [
        (row.field, f"{'-' if row.value is None else row.value}  ({row.source})") for row in rows
    ]
    echo("\n".join(note_lines(notes, _NOTE_COLUMN)))
    for file in files:
        echo(f"{'read' if file['exists'] else 'not there'}: {file['file']}", err=True)
    return 0


def print_schema() -> int:
    """Print the JSON schema of a job file."""
    click.echo(schema_text(), nl=False)
    return 0


def schema_text() -> str:
    """Return the JSON schema as the text of a file."""
    return json.dumps(job_schema(), indent=2) + "\n"
