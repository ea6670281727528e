"""`launcher wait`: wait for jobs to end."""

from __future__ import annotations

import math
import time

import click

from launcher.client.cli.options import completion_values
from launcher.client.cli.options.session_options import job_to_read, session_option
from launcher.client.cli.screen.job_output import print_notice
from launcher.client.cli.screen.verb_output import (
    described_error,
    echo,
    print_error,
    print_json,
    with_output_option,
)
from launcher.client.jobs import EXIT_CODES, Deadline, with_resume_hint
from launcher.errors import StillRunning


@click.command()
@click.argument("names", nargs=-1, shell_complete=completion_values.jobs)
@click.option("--timeout", type=click.FloatRange(min=0), help="Wait at most this many seconds.")
@session_option
@with_output_option
def wait(names: tuple[str, ...], timeout: float | None, session: str | None, output: str) -> int:
    """Wait until jobs NAMES have ended.

    A restart that a job's platform makes is waited for, too: what is printed is the status of its
    last attempt. The exit code is that of the first job that did not complete; 124 if none failed
    or was stopped, and some still ran at the timeout.
    """
    jobs = [job_to_read(name, session) for name in dict.fromkeys(names or (None,))]
    until = math.inf if timeout is None else time.monotonic() + timeout
    statuses = {}
    late: list[StillRunning] = []
    for first in jobs:
        left = None if timeout is None else max(0.0, until - time.monotonic())
        deadline = Deadline(first.name, left)
        with with_resume_hint(first.name):
            try:
                for job in first.attempts(print_notice, deadline.sleep):
                    job.wait(notices=print_notice, timeout=deadline.seconds_left)
            except StillRunning as error:
                late.append(error)
                print_error(error)
            statuses[job.name] = job.description(print_notice)["TrainingJobStatus"]
        if output == "text":
            echo(f"{job.name}  {statuses[job.name]}")
    codes = [code for each in statuses.values() if (code := EXIT_CODES.get(each))]
    reported = late[0] if late and not codes else None
    if output == "json":
        described = [{"name": name, "status": each} for name, each in statuses.items()]
        print_json({"jobs": described, **(described_error(reported) if reported else {})})
    return next(iter(codes), reported.exit_code if reported else 0)
