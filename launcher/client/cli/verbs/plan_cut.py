"""`launcher plan cut`: find the best cuts of a task's model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from launcher.client.cli.options.plan_options import cut_options
from launcher.client.cli.screen.ctrl_c import sigterm_as_ctrl_c
from launcher.client.cli.screen.verb_output import echo, print_json, print_message, with_json_flag
from launcher.client.cli.verb_group import CommandWithSubcommands
from launcher.client.cli.verb_table import VERBS
from launcher.client.cli.verbs.plan_cut_show import described
from launcher.client.home import writing
from launcher.client.planning import partition as find
from launcher.client.planning import partition_tables
from launcher.errors import PlatformError

_OTHERS = VERBS["plan"].subcommands["cut"].subcommands


@click.command("cut", cls=CommandWithSubcommands, subcommands=_OTHERS)
@click.argument(
    "task", shell_complete=lambda _c, _p, typed: [n for n in _OTHERS if n.startswith(typed)]
)
@cut_options
@click.option(
    "-o",
    "--out",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    default="partition.json",
    show_default=True,
    help="File to write the partition to.",
)
@with_json_flag
def cut(task: str, path: Path, output: str, **asked: Any) -> int:
    """Find the best pipeline cuts for a task's model.

    TASK is "module:name": a launcher.trainers.Task, or a function that returns one. Its model is
    profiled in a separate process, which needs torch. The best cuts, and the measurements behind
    them, are written to a file that a job takes. If the model cannot be cut as requested, the exit
    code is 1, and the error names a request that would work.

    `launcher plan cut show FILE` prints the contents of such a file.
    """
    if not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
        raise PlatformError(f"{path} cannot be written: {path.parent} is not a writable folder")
    with sigterm_as_ctrl_c():
        found = find(task, **asked)
    tables = partition_tables(found)  # an inconsistent partition raises here, before it is stored
    with writing(path):
        found.write(path)
    if output == "json":
        print_json({"file": str(path), **described(found)})
    else:
        echo(*tables)
        print_message(
            f"\nThe partition is in {path}. To use it, write in a job.yaml in the same folder:\n"
        )
        print_message(f"distribution: {{model_parallel: {{partition_file: {path.name}}}}}")
    return 0
