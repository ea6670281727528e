"""`launcher schema`: print the JSON schema of a job file."""

from __future__ import annotations

import json

import click


@click.command()
def schema() -> None:
    """Print the JSON schema of job.yaml, for editors.

    They find it by the first line of job.yaml:
    # yaml-language-server: $schema=FILE. `launcher init` writes both.
    """
    click.echo(schema_text(), nl=False)


def schema_text() -> str:
    """Return the JSON schema as the text of a file."""
    from launcher.client.spec import job_schema  # reads the catalogue

    return json.dumps(job_schema(), indent=2) + "\n"
