"""`launcher plan cut show`: print the contents of a partition file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from launcher.client.cli.screen.verb_output import echo, print_json, print_message, with_json_flag
from launcher.client.home import writing
from launcher.client.planning import Partition, partition_tables, timeline_svg, title


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--svg",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Draw the timeline of one step into this file.",
)
@with_json_flag
def show(file: Path, svg: Path | None, output: str) -> int:
    """Show a partition file written by `launcher plan cut`.

    Prints its stages with their times and bytes, the predicted step, and what would change with
    other numbers of partitions or microbatches, or with the other objective.
    """
    partition = Partition.read(file)
    if svg:
        _draw(partition, svg)
    if output == "json":
        print_json(described(partition))
    else:
        echo(*partition_tables(partition))
    return 0


def described(partition: Partition) -> dict[str, Any]:
    """Return the fields of the file, with the idle time and in-flight microbatches they imply."""
    timeline = partition.timeline
    more = {"idle": timeline.idle, "in_flight": list(timeline.under_way)}
    return {**json.loads(partition.to_json()), **more}


def _draw(partition: Partition, path: Path) -> None:
    with writing(path):
        path.write_text(timeline_svg(partition.timeline, title(partition)), encoding="utf-8")
    print_message(f"A step is drawn in {path}")
