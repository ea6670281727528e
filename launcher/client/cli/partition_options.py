"""Options of `launcher partition`, named as the arguments of `launcher.partition`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from launcher.client.planning.partition_request import PROFILES
from launcher.client.spec.document_builder import read_value
from launcher.shared import OBJECTIVES, PRECISIONS, SCHEDULES

Verb = TypeVar("Verb", bound=Callable[..., Any])


def _values(
    _context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
) -> dict[str, Any]:
    """Return the hyperparameters by name, as a job file would hold them."""
    return dict(map(_value, given))


def _value(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE")
    try:
        return name, read_value(value)
    except ValueError as error:
        raise click.BadParameter(f"{text!r} has no YAML as its value: {error}") from error


_COUNT = click.IntRange(min=1)
_OPTIONS = (
    click.option("--partitions", type=_COUNT, required=True, help="Ranks that share the model."),
    click.option(
        "--microbatches", type=_COUNT, required=True, help="Parts of a batch, which go through."
    ),
    click.option(
        "--optimize",
        type=click.Choice(OBJECTIVES),
        default="speed",
        show_default=True,
        help="The shortest step, or the least memory of the largest rank.",
    ),
    click.option("--memory-cap", metavar="SIZE", help="What a rank may have: 40GiB."),
    click.option(
        "--virtual", "virtual_stages", type=_COUNT, default=1, help="Stages of each rank."
    ),
    click.option(
        "--schedule", type=click.Choice(SCHEDULES), default="interleaved", show_default=True
    ),
    click.option(
        "--profile",
        type=click.Choice(PROFILES),
        default="measured",
        show_default=True,
        help="Run the model here, or reckon without even making its weights.",
    ),
    click.option("--precision", type=click.Choice(PRECISIONS), help="What is computed in."),
    click.option(
        "--recompute",
        "recomputed",
        metavar="MODULE",
        multiple=True,
        help="Its activations are computed again, not kept.",
    ),
    click.option(
        "--replicas", type=_COUNT, default=1, help="Of the model, which share the task's batch."
    ),
    click.option(
        "--source-dir",
        type=click.Path(path_type=Path, file_okay=False),
        default=".",
        help="Where TASK's module is; by default here.",
    ),
    click.option(
        "--set",
        "hyperparameters",
        metavar="NAME=VALUE",
        multiple=True,
        callback=_values,
        help="A hyperparameter of TASK.",
    ),
    click.option(
        "--bandwidth", metavar="SIZE/s", help="Between ranks: 12GiB/s. By default it is measured."
    ),
    click.option("--latency", metavar="TIME", help="Between ranks, with --bandwidth: 20us."),
)


def partition_options(verb: Verb) -> Verb:
    """Add all the partition options to a verb."""
    for option in reversed(_OPTIONS):
        verb = option(verb)
    return verb
