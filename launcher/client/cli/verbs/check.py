"""`launcher check`: report what works here, what does not, and how to fix it."""

from __future__ import annotations

from pathlib import Path

import click

from launcher.client.cli.options.session_options import session_of_check_option
from launcher.client.cli.options.shared_options import optional_job_file_options
from launcher.client.cli.screen.check_output import CheckupScreen, print_config, print_schema
from launcher.client.cli.screen.verb_output import print_message, with_output_option
from launcher.client.doctor import ImageLook, ReadLimits, run_checks


@click.command()
@session_of_check_option
@optional_job_file_options
@click.option(
    "--data", is_flag=True, help="Read the first samples of each of the job's datasets as well."
)
@click.option(
    "--image",
    is_flag=True,
    help="Look into the job's image as well, which is pulled if it is not present.",
)
@click.option(
    "--engine",
    metavar="PROGRAM",
    help="With --image: docker, podman or a path [default: $LAUNCHER_ENGINE, or what is there].",
)
@click.option(
    "--config", is_flag=True, help="Only show the defaults of jobs for AWS, and where each is from."
)
@click.option("--schema", is_flag=True, help="Only print the JSON schema of job.yaml, for editors.")
@click.option(
    "--samples",
    type=click.IntRange(min=1),
    help="With --data: samples of each dataset to read [default: 64].",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    help="With --data: stop reading a dataset after so many seconds [default: 20].",
)
@with_output_option
def check(
    job_file: Path | None,
    session: str | None,
    changes: tuple[str, ...],
    *,
    data: bool,
    image: bool,
    engine: str | None,
    config: bool,
    schema: bool,
    samples: int | None,
    seconds: float | None,
    output: str,
) -> int:
    """Report what works here and what does not.

    Checks this machine, AWS as far as it can be seen from here, and JOB_FILE. Creates nothing.
    The exit code is 0 when a job (JOB_FILE, if given) can run on the session: this machine, AWS
    with --cloud, or the one that --session names; else 2. With --data or --image, JOB_FILE is by
    default job.yaml, and a dataset that fails or does not repeat itself, or what an image lacks, is
    a problem, too. With --config and JOB_FILE, the values are those that the job is sent with.
    """
    if data + config + schema > 1 or (session and (config or schema)):
        raise click.UsageError("give --data, --config or --schema; only --data takes a session")
    if schema and (job_file or changes):
        raise click.UsageError("--schema is the same for all jobs: leave out JOB_FILE and --set")
    if not data and (samples or seconds):
        raise click.UsageError("--samples and --seconds go with --data, which reads the datasets")
    if engine and not image:
        raise click.UsageError("--engine goes with --image, which looks into the job's image")
    if image and (config or schema):
        raise click.UsageError("--image goes with the checks: leave out --config and --schema")
    if config or schema:
        return print_config(job_file, changes, output) if config else print_schema()
    limits = ReadLimits(samples=samples or 64, seconds=seconds or 20.0) if data else None
    look = ImageLook(engine=engine, on_message=print_message) if image else None
    if (data or image) and job_file is None:
        job_file = Path("job.yaml")
    screen = CheckupScreen(output)
    where = session or "local"
    checkup = run_checks(
        job_file, changes, session=where, data=limits, image=look, on_finding=screen.show
    )
    screen.close(checkup)
    return checkup.exit_code
