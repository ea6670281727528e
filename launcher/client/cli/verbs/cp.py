"""`launcher cp`: copy files out of a host of a local job."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import click

from launcher.client.cli.options import completion_values
from launcher.client.cli.options.local_job import session_of_local_job
from launcher.client.cli.screen.confirmation import confirm_each, yes_option
from launcher.client.cli.screen.json_output import print_json
from launcher.client.cli.screen.terminal_output import echo
from launcher.client.cli.screen.verb_output import with_output_option

_ON_AWS = "`launcher download` fetches the results of a job on AWS"


@click.command()
@click.argument("source", metavar="NAME:PATH", shell_complete=completion_values.jobs)
@click.argument("target", type=click.Path(path_type=Path))
@click.option(
    "--host",
    help="The host, for example algo-2 [default: algo-1].",
    shell_complete=completion_values.hosts,
)
@yes_option("Replace files of a folder that is there without asking.")
@with_output_option
def cp(source: str, target: Path, host: str | None, yes: bool, output: str) -> int:
    """Copy PATH of a local job's host to TARGET.

    PATH is below /opt/ml: model, output/data or /opt/ml/checkpoints/last.pt, of a job that runs or
    has ended. NAME/algo-2:PATH names the host too. A folder is copied with all that is in it, after
    a question where files of an earlier copy are replaced.
    """
    name, named_host, path = _parts(source)
    if named_host and host and named_host != host:
        raise click.UsageError(f"{source} names host {named_host}, and --host {host}: give one")
    chosen = host or named_host or "algo-1"
    earlier = target / PurePosixPath(path).name
    confirm_each("replace files in", [str(earlier)] if _has_files(earlier) else [], yes=yes)
    copy = session_of_local_job(name, _ON_AWS).copy_from_host(name, chosen, path, target)
    if output == "json":
        print_json({"name": name, "host": chosen, "path": path, "copy": str(copy)})
    else:
        echo(copy)
    return 0


def _has_files(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _parts(source: str) -> tuple[str, str, str]:
    """Return job, host ("" if none is named) and path of NAME/HOST:PATH."""
    place, colon, path = source.partition(":")
    name, _, host = place.partition("/")
    if not (colon and name and path):
        raise click.UsageError(f"{source!r} is not NAME:PATH: write for example my-job:model")
    return name, host, path
