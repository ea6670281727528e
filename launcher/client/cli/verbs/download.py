"""`launcher download`: download a job's results to this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from launcher.client.cli.options import completion_values
from launcher.client.cli.options.session_options import session_option
from launcher.client.cli.screen.confirmation import confirm_each, yes_option
from launcher.client.cli.screen.json_output import print_json
from launcher.client.cli.screen.terminal_output import echo
from launcher.client.cli.screen.verb_output import print_message, with_output_option
from launcher.client.jobs import ARTIFACTS, Job
from launcher.client.sessions import session_of
from launcher.errors import LauncherError

_MIB = 1 << 20


@click.command()
@click.argument("name", shell_complete=completion_values.jobs)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
@yes_option("Replace files of these names without asking.")
@session_option
@with_output_option
def download(name: str, folder: Path, yes: bool, session: str | None, output: str) -> int:
    """Download the model and output of job NAME.

    Writes FOLDER/model.tar.gz and FOLDER/output.tar.gz, or whichever of them the job produced. Asks
    before it replaces one.
    """
    job = Job(name, session_of(name, session))
    confirm_each("replace", [str(folder / each) for each in _existing(folder)], yes=yes)
    files = job.download_artifacts(folder, _print_progress if sys.stderr.isatty() else None)
    if output == "json":
        print_json({"files": [str(file) for file in files]})
    elif not files:
        print_message(f"Job {name} has no model and no output (status: {job.status}).")
        for line in job.description().get("LocalLosses", ()):
            print_message(line)
    else:
        for file in files:
            echo(file)
    return 0 if files else LauncherError.exit_code


def _existing(folder: Path) -> list[str]:
    return [name for name in ARTIFACTS if (folder / name).exists()]


def _print_progress(file: str, copied: int, size: int | None) -> None:
    of = f" of {size / _MIB:.1f}" if size is not None else ""
    is_complete = copied == size
    click.echo(f"\r{file}  {copied / _MIB:.1f}{of} MiB", err=True, nl=is_complete)
