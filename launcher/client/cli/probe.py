"""`launcher probe`: measure what a platform's documentation leaves open."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import click

from launcher.client.cli.json_output import print_json
from launcher.client.cli.terminal_output import echo
from launcher.client.cli.verb_output import print_message, with_output_option
from launcher.client.probe import compare_answers, probe_locally, request_for_aws
from launcher.errors import CloudError, PlatformError


@click.command()
@click.option(
    "--local", is_flag=True, help="Probe this machine, with every isolation that works here."
)
@click.option("--dry-run", is_flag=True, help="Print the CreateTrainingJob request, send nothing.")
@click.option("--role", help="ARN of the job's IAM role (AWS only).")
@click.option("--image", help="URI of an image with Python 3.10 or newer (AWS only).")
@click.option(
    "--output", "place", help="s3://BUCKET/PREFIX for the job's files and answers (AWS only)."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File for the answers [default: probe-local.json].",
)
@with_output_option
def probe(
    local: bool,
    dry_run: bool,
    role: str | None,
    image: str | None,
    place: str | None,
    out: Path | None,
    output: str,
) -> int:
    """Measure what a platform's documentation leaves open.

    A job of two small hosts in two groups inspects the platform. The results are printed and stored
    as JSON, without secrets and account numbers.
    """
    if dry_run:
        print_json(request_for_aws(role, image, place))
        return 0
    if not local:
        raise CloudError(
            "this version probes only this machine: add --local, or --dry-run to print the request"
        )
    found = probe_locally(print_message)
    _store(found, out or Path("probe-local.json"))
    if output == "json":
        print_json(found)
    else:
        for question, answers in compare_answers(found).items():
            echo(click.style(f"\n{question}", bold=True))
            echo("\n".join(f"  {answer}" for answer in answers))
    return 0


def _store(found: Mapping[str, object], path: Path) -> None:
    try:
        path.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    except OSError as error:
        raise PlatformError(
            f"cannot write the answers to {path}: {error.strerror}: use another --out FILE"
        ) from error
    print_message(f"Answers written to {path}")
