"""`launcher config`: show the defaults from files, and where each value of a job comes from."""

from __future__ import annotations

from pathlib import Path

import click

from launcher.client.cli.options.shared_options import optional_job_file_options
from launcher.client.cli.screen.json_output import print_json
from launcher.client.cli.screen.terminal_output import echo
from launcher.client.cli.screen.verb_output import with_output_option
from launcher.client.sessions import default_sources, defaults_files, read_defaults, value_sources
from launcher.client.spec import JobSpec


@click.command()
@optional_job_file_options
@with_output_option
def config(job_file: Path | None, changes: tuple[str, ...], output: str) -> int:
    """Show the defaults of jobs for AWS, and where each comes from.

    With JOB_FILE, show the value that the job is sent with instead.
    """
    defaults = read_defaults()
    if job_file:
        spec = JobSpec.from_yaml(job_file, changes)
        rows = list(value_sources(spec, str(job_file), defaults))
    else:
        rows = list(default_sources(defaults))
    files = [{"file": str(f.path), "exists": f.path.is_file()} for f in defaults_files()]
    if output == "json":
        print_json({"values": [vars(row) for row in rows], "files": files})
        return 0
    for row in rows:
        value = "-" if row.value is None else row.value
        echo(f"{row.field:<32}  {value}  ({row.source})")
    for file in files:
        echo(f"{'read' if file['exists'] else 'not there'}: {file['file']}", err=True)
    return 0
