"""`launcher download`: download a job's results, or files of one of its hosts."""

from __future__ import annotations

import sys
from pathlib import Path, PurePosixPath

import click

from launcher.client.cli.options import completion_values
from launcher.client.cli.options.session_options import (
    job_argument,
    job_to_read,
    session_of_local_job,
    session_option,
)
from launcher.client.cli.screen.download_output import print_copied, print_download, print_progress
from launcher.client.cli.screen.verb_output import confirm_each, with_output_option, yes_option
from launcher.client.jobs import ARTIFACTS
from launcher.errors import PlatformError


@click.command()
@job_argument
@click.argument("path", required=False)
@click.option(
    "--to",
    "target",
    type=click.Path(path_type=Path),
    default=".",
    help="Folder to write to, or a new name for the copy of PATH [default: the current folder].",
)
@click.option(
    "--host",
    help="With PATH: the host, for example algo-2 [default: algo-1].",
    shell_complete=completion_values.hosts,
)
@yes_option("Replace files of these names without asking.")
@session_option
@with_output_option
def download(
    name: str | None,
    path: str | None,
    *,
    target: Path,
    host: str | None,
    yes: bool,
    session: str | None,
    output: str,
) -> int:
    """Download the model and output of job NAME, or PATH of a host.

    Writes model.tar.gz and output.tar.gz, or whichever of them the job produced. PATH is a file or
    folder below /opt/ml in a host of this machine, of a job that runs or has ended: model,
    output/data or /opt/ml/checkpoints/last.pt. Asks before it replaces files.
    """
    if path is None and (host or target.is_file()):
        raise click.UsageError("--host, and a file as --to, go with PATH")
    job = job_to_read(name, session)
    if path is None:
        there = [each for each in ARTIFACTS if (target / each).exists()]
        confirm_each("replace", [str(target / each) for each in there], yes=yes)
        files = job.download_artifacts(target, print_progress if sys.stderr.isatty() else None)
        return print_download(job, files, output)
    earlier = target / PurePosixPath(path).name
    confirm_each("replace files in", [str(earlier)] if _has_files(earlier) else [], yes=yes)
    results = f"`launcher download {job.name} --to {path}` writes the job's results there"
    session_here = session_of_local_job(job.name, results)
    try:
        copy = session_here.copy_from_host(job.name, host or "algo-1", path, target)
    except PlatformError as error:
        raise PlatformError(f"{error}\n  {results}") from error
    return print_copied(job.name, host or "algo-1", path, copy, output)


def _has_files(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())
