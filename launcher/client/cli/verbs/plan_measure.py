"""`launcher plan measure`: measure what the samples of a dataset cost."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from launcher.client.cli.options.plan_options import measure_options
from launcher.client.cli.options.session_options import job_to_read
from launcher.client.cli.screen.verb_output import (
    echo,
    print_json,
    print_message,
    print_whole,
    with_output_option,
)
from launcher.client.doctor import ReadLimits
from launcher.client.home import check_new, write_new
from launcher.client.planning import (
    ProfileRequest,
    WorkloadProfile,
    profile_datasets,
    profile_of_job,
    profile_text,
)


@click.command("measure")
@click.argument("target", required=False)
@measure_options
@with_output_option
def measure(target: str | None, out: Path | None, output: str, **asked: Any) -> int:
    """Measure what samples cost on this machine, and write a workload.

    TARGET is a dataset such as pipeline:train_set, or a job file, whose datasets are measured; by
    default job.yaml. Each is read by a process of its own, on a copy of the code. The file has the
    first one; with -o json, all are printed. With --from-job, nothing is run.
    """
    if out:
        check_new(out)
    profiles = []
    for each in _profiles(target, **asked):
        profiles.append(each)
        if output == "text":
            echo(profile_text(each), err=out is None)
    first = profiles[0]
    if out:
        write_new(first.to_yaml(), out)
    if output == "json":
        print_json({"profiles": [each.to_plain() for each in profiles]})
    elif out is None:
        print_whole(first.to_yaml().removesuffix("\n"))
    if out:
        print_message(f"\n{out} is the workload of {first.dataset}: launcher plan --workload {out}")
    if not first.gpu_seconds:
        print_message("`launcher plan` needs gpu_seconds_per_step: add it, or give --step-seconds")
    return 0


def _profiles(
    target: str | None, *, from_job: str | None, samples: int, seconds: float, **asked: Any
) -> Iterable[WorkloadProfile]:
    if from_job is None:
        limits = ReadLimits(samples=samples, seconds=seconds)
        return profile_datasets(target, ProfileRequest(limits=limits, **asked))
    if target or any(asked.pop(name) for name in ("changes", "task")):
        raise click.UsageError("--from-job takes a job that has ended: no TARGET, --task or --set")
    return [profile_of_job(job_to_read(from_job), **asked)]
