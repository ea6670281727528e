"""Output of `launcher download`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from launcher.client.cli.screen.verb_output import echo, print_json, print_message
from launcher.client.jobs import Job
from launcher.errors import LauncherError

_MIB = 1 << 20


def print_progress(file: str, copied: int, size: int | None) -> None:
    """Show how much of a file has arrived, over what was shown before."""
    of = f" of {size / _MIB:.1f}" if size is not None else ""
    is_complete = copied == size
    click.echo(f"\r{file}  {copied / _MIB:.1f}{of} MiB", err=True, nl=is_complete)


def print_download(job: Job, files: Sequence[Path], output: str) -> int:
    """Print the results of a job that were downloaded, or why there are none; return the code."""
    if output == "json":
        print_json({"files": [str(file) for file in files]})
    elif not files:
        print_message(f"Job {job.name} has no model and no output (status: {job.status}).")
        for line in job.description().get("LocalLosses", ()):
            print_message(line)
    else:
        for file in files:
            echo(file)
    return 0 if files else LauncherError.exit_code


def print_copied(name: str, host: str, path: str, copy: Path, output: str) -> int:
    """Print where the copy of a host's file or folder is; return the exit code."""
    if output == "json":
        print_json({"name": name, "host": host, "path": path, "copy": str(copy)})
    else:
        echo(copy)
    return 0
