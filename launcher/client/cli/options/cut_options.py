"""Options of `launcher plan cut`, named as the arguments of `launcher.partition`."""

from __future__ import annotations

from pathlib import Path

import click

from launcher.client.cli.options.shared_options import options
from launcher.client.planning import PROFILES
from launcher.client.spec import read_value
from launcher.shared import OBJECTIVES, PRECISIONS, SCHEDULES


def _values(
    _context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
) -> dict[str, object]:
    """Return the hyperparameters by name, as a job file would hold them."""
    return dict(map(_value, given))


def _value(text: str) -> tuple[str, object]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE")
    try:
        return name, read_value(value)
    except ValueError as error:
        raise click.BadParameter(f"the value in {text!r} is not YAML: {error}") from error


_COUNT = click.IntRange(min=1)
cut_options = options(
    click.option(
        "--partitions", type=_COUNT, required=True, help="Number of ranks to split the model over."
    ),
    click.option(
        "--microbatches", type=_COUNT, required=True, help="Number of microbatches per batch."
    ),
    click.option(
        "--optimize",
        type=click.Choice(OBJECTIVES),
        default="speed",
        show_default=True,
        help="Minimize the step time, or the memory of the largest rank.",
    ),
    click.option(
        "--memory-cap", metavar="SIZE", help="Memory limit of each rank, for example 40GiB."
    ),
    click.option(
        "--virtual", "virtual_stages", type=_COUNT, default=1, help="Number of stages per rank."
    ),
    click.option(
        "--schedule",
        type=click.Choice(SCHEDULES),
        default="interleaved",
        show_default=True,
        help="Pipeline schedule.",
    ),
    click.option(
        "--profile",
        type=click.Choice(PROFILES),
        default="measured",
        show_default=True,
        help="Run the model here, or estimate its costs without allocating its weights.",
    ),
    click.option(
        "--precision",
        type=click.Choice(PRECISIONS),
        help="Mixed-precision type of the computation.",
    ),
    click.option(
        "--recompute",
        "recomputed",
        metavar="MODULE",
        multiple=True,
        help="Recompute the activations of MODULE in the backward pass. Repeatable.",
    ),
    click.option(
        "--replicas",
        type=_COUNT,
        default=1,
        help="Number of data-parallel replicas that share the batch.",
    ),
    click.option(
        "--shard-degree",
        type=_COUNT,
        default=1,
        help="Number of replicas that share parameters and optimizer state of each stage (FSDP2).",
    ),
    click.option(
        "--source-dir",
        type=click.Path(path_type=Path, file_okay=False),
        default=".",
        help="Folder of TASK's module [default: the current folder].",
    ),
    click.option(
        "--set",
        "hyperparameters",
        metavar="NAME=VALUE",
        multiple=True,
        callback=_values,
        help="Hyperparameter of TASK. Repeatable.",
    ),
    click.option(
        "--bandwidth",
        metavar="SIZE/s",
        help="Bandwidth between ranks, for example 12GiB/s; measured by default.",
    ),
    click.option(
        "--latency",
        metavar="TIME",
        help="Latency between ranks, for example 20us; needs --bandwidth.",
    ),
)
