"""The options of `launcher plan`."""

from __future__ import annotations

from pathlib import Path

import click

from launcher.client.cli.options.shared_options import options


def _split(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, ...]:
    """Return the words of a list with commas; a callback of options."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _regions(context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, ...]:
    names = _split(context, parameter, text)
    if not names:
        raise click.BadParameter("write regions, such as us-east-1,eu-west-1")
    return names


def _hosts(context: click.Context, parameter: click.Parameter, text: str) -> tuple[int, ...]:
    words = _split(context, parameter, text)
    if not words or not all(word.isdecimal() and int(word) > 0 for word in words):
        raise click.BadParameter("write numbers above 0, such as 1,2,4")
    return tuple(map(int, words))


plan_options = options(
    click.option(
        "--workload",
        type=click.Path(path_type=Path, dir_okay=False),
        required=True,
        help="YAML file of the workload.",
    ),
    click.option(
        "--gpu-types",
        default="",
        callback=_split,
        metavar="TYPES",
        help="Types of train hosts, with commas; default: all that the workload has times for.",
    ),
    click.option(
        "--regions",
        default="us-east-1",
        show_default=True,
        callback=_regions,
        metavar="REGIONS",
        help="Regions whose prices are compared, with commas; several by their own prices only.",
    ),
    click.option(
        "--train-hosts",
        default="1",
        show_default=True,
        callback=_hosts,
        metavar="NUMBERS",
        help="Numbers of train hosts to compare, with commas.",
    ),
    click.option(
        "--max-cost-per-hour",
        type=click.FloatRange(min=0),
        help="Leave out clusters that cost more dollars per hour.",
    ),
    click.option(
        "--deadline",
        type=click.FloatRange(min=0, min_open=True),
        metavar="HOURS",
        help="Leave out clusters that take longer for all epochs; the workload needs "
        "samples_per_epoch and epochs.",
    ),
    click.option(
        "--epochs", type=click.IntRange(min=1), help="Number of epochs, instead of the workload's."
    ),
    click.option(
        "--sort",
        type=click.Choice(["price", "time"]),
        default="price",
        show_default=True,
        help="What the best cluster has least of, per sample.",
    ),
    click.option(
        "--limit",
        type=click.IntRange(min=1),
        default=10,
        show_default=True,
        help="Clusters to show.",
    ),
    click.option(
        "--write",
        "path",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write the recommended cluster as a new job file, with its region in a comment.",
    ),
    click.option("--chart", "is_drawn", is_flag=True, help="Draw price over time of the clusters."),
    click.option(
        "--html",
        "page",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write the answer with its picture as a new HTML file.",
    ),
    click.option(
        "--explain",
        "is_explained",
        is_flag=True,
        help="Show where each number of each cluster comes from, and how it differs from the best.",
    ),
)
