"""The options of `launcher plan`, `plan cut` and `plan measure`.

Those of `plan cut` are named as the arguments of `launcher.partition`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from launcher.client.catalogue import instance_types
from launcher.client.cli.options import completion_values
from launcher.client.cli.options.shared_options import (
    changes_option,
    options,
    removed_option,
)
from launcher.client.planning import PROFILES
from launcher.client.spec import read_value
from launcher.shared import OBJECTIVES, PRECISIONS, SCHEDULES, did_you_mean


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


_STEP_OF_SCRIPT = (
    "take the figures of a job that trained with a data group, --from-job NAME, or time the "
    "script's steps on a batch that is kept in memory, and give them with --step-seconds"
)


def _step_seconds(
    _context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> Mapping[str, float]:
    """Return the seconds by accelerator; a callback of --step-seconds."""
    known = {each.accelerator_name for each in instance_types().values() if each.accelerator_name}
    found = {}
    for text in texts:
        name, _, seconds = text.rpartition("=")
        if name not in known:
            near = did_you_mean(name, known)
            hint = f"did you mean {near}?" if near else f"one of {', '.join(sorted(known))}"
            raise click.BadParameter(f"{name!r} is no accelerator of the catalogue; {hint}")
        try:
            found[name] = float(seconds)
        except ValueError:
            raise click.BadParameter(f"{seconds!r} is no number of seconds") from None
        if not 0 < found[name] < float("inf"):
            raise click.BadParameter(f"{seconds} seconds are out of range")
    return found


def _family(_context: click.Context, _parameter: click.Parameter, name: str | None) -> str | None:
    """Return a family of the catalogue; a callback of --cpu-family."""
    known = {each.split(".")[1] for each in instance_types() if each.startswith("ml.")}
    if name is None or name in known:
        return name
    near = did_you_mean(name, known)
    hint = f"did you mean {near}?" if near else "use one such as c5 of ml.c5.xlarge"
    raise click.BadParameter(f"{name} is no instance family; {hint}")


measure_options = options(
    click.option(
        "--from-job",
        metavar="NAME",
        shell_complete=completion_values.jobs,
        help="Take the figures of job NAME, which has ended, instead of measuring.",
    ),
    click.option(
        "--batch-size",
        type=click.IntRange(min=1),
        help="Samples of a rank's step; default: that of the loader or of the hyperparameters.",
    ),
    changes_option,
    click.option(
        "--samples",
        type=click.IntRange(min=2),
        default=512,
        show_default=True,
        help="Samples to read one by one, and then in batches.",
    ),
    click.option(
        "--seconds",
        type=click.FloatRange(min=0, min_open=True),
        default=20.0,
        show_default=True,
        help="Stop each of the two after so many seconds.",
    ),
    click.option(
        "--task",
        metavar="MODULE:FUNCTION",
        help="Measure the memory of this task's model, and its steps where this machine has a GPU; "
        "default: the job's task.",
    ),
    click.option(
        "--step-seconds",
        "gpu_seconds",
        multiple=True,
        callback=_step_seconds,
        metavar="ACCELERATOR=SECONDS",
        help="Seconds of a step whose data is there already, for the file. Repeatable.",
    ),
    click.option(
        "--cpu-family",
        callback=_family,
        help="Instance family of this machine; default: that of the EC2 instance, if it is one.",
    ),
    click.option(
        "--out",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write the workload as a new file; default: print it.",
    ),
    removed_option("--script", _STEP_OF_SCRIPT),
    removed_option("--steps", _STEP_OF_SCRIPT),
    removed_option(
        "--calibrate",
        "measure the dataset on both families, and add the second to cpu_speed in the first one's "
        "file, as in {c5: 1, m7i: 1.31}: its CPU seconds on c5, divided by those on m7i",
    ),
)
