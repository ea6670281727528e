"""`launcher config`: show the defaults from files, and where each value of a job comes from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from launcher.client.cli import completion_values
from launcher.client.cli.shared_options import changes_option
from launcher.client.cli.verb_output import print_json, with_output_option
from launcher.client.sessions.completed_spec import applied_defaults, with_defaults
from launcher.client.sessions.default_values import (
    DEFAULT_FIELDS,
    DefaultValue,
    defaults_files,
    read_defaults,
)
from launcher.client.spec import JobSpec

Row = dict[str, Any]


@click.command()
@click.argument(
    "job_file",
    type=click.Path(path_type=Path),
    required=False,
    shell_complete=completion_values.job_files,
)
@changes_option
@with_output_option
def config(job_file: Path | None, changes: tuple[str, ...], output: str) -> int:
    """Show the defaults of jobs for AWS, and where each comes from.

    With JOB_FILE, show the value that the job is sent with instead.
    """
    defaults = read_defaults()
    rows = list(_of_job(job_file, changes, defaults) if job_file else _of_files(defaults))
    files = [{"file": str(f.path), "exists": f.path.is_file()} for f in defaults_files()]
    if output == "json":
        print_json({"values": rows, "files": files})
        return 0
    for row in rows:
        click.echo(f"{row['field']:<32}  {_shown(row['value'])}  ({row['source']})")
    for file in files:
        click.echo(f"{'read' if file['exists'] else 'not there'}: {file['file']}", err=True)
    return 0


def _of_files(defaults: dict[str, DefaultValue]) -> Iterator[Row]:
    for field in DEFAULT_FIELDS:
        found = defaults.get(field)
        yield _row(field, found and found.value, _place(found) if found else "no default")


def _of_job(
    job_file: Path, changes: tuple[str, ...], defaults: dict[str, DefaultValue]
) -> Iterator[Row]:
    spec = JobSpec.from_yaml(job_file, changes)
    sent, from_files = with_defaults(spec, defaults), applied_defaults(spec, defaults)
    for field in DEFAULT_FIELDS:
        if not hasattr(spec, field):  # of sessions, not of jobs
            found = defaults.get(field)
            yield _row(field, found and found.value, _place(found) if found else "no default")
            continue
        own = str(job_file) if getattr(spec, field) else "the job leaves it open"
        places = [_place(defaults[field])] if field in from_files else []
        said = [own] if getattr(spec, field) or not places else []
        yield _row(field, getattr(sent, field) or None, ", ".join([*said, *places]))


def _place(default: DefaultValue) -> str:
    return f"{default.file}: {default.key}"


def _row(field: str, value: object, source: str) -> Row:
    return {"field": field, "value": list(value) if isinstance(value, tuple) else value} | {
        "source": source
    }


def _shown(value: object) -> str:
    return "-" if value is None else str(value)
