"""The options of `launcher plan measure`."""

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
from launcher.shared import did_you_mean

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
