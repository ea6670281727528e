"""`launcher list`: list the jobs, newest first."""

from __future__ import annotations

from datetime import datetime

import click

from launcher.client.cli.options.session_options import session_option
from launcher.client.cli.options.shared_options import age_option
from launcher.client.cli.screen.verb_output import (
    echo,
    print_json,
    print_message,
    with_output_option,
)
from launcher.client.jobs import job_table, plain_job
from launcher.client.sessions import KeepsJobFiles, open_session

_STATUSES = ("InProgress", "Completed", "Failed", "Stopping", "Stopped")


@click.command("list")
@click.option("--name-contains", help="Only jobs whose name contains this.")
@click.option(
    "--status", type=click.Choice(_STATUSES, case_sensitive=False), help="Only jobs in this state."
)
@age_option("Only jobs created within this time, for example 90m, 12h or 2d.")
@click.option("--limit", type=click.IntRange(min=1), help="At most this many jobs, newest first.")
@click.option(
    "-l",
    "--long",
    "is_long",
    is_flag=True,
    help="Show the size of local jobs; of jobs on AWS what takes a call for each: groups, cost, "
    "metrics and reasons.",
)
@session_option
@with_output_option
def list_jobs(
    name_contains: str | None,
    status: str | None,
    since: datetime | None,
    limit: int | None,
    is_long: bool,
    session: str | None,
    output: str,
) -> int:
    """List jobs, newest first.

    With each its groups, its cost where it costs something, and its last metric or the reason of
    its failure.
    """
    asked = open_session(session or "local")
    jobs = asked.list_training_jobs(
        NameContains=name_contains, StatusEquals=status, CreationTimeAfter=since, limit=limit
    )["TrainingJobSummaries"]
    disk = asked if is_long and isinstance(asked, KeepsJobFiles) else None
    detailed = asked if is_long or not asked.platform.bills else None
    if output == "json":
        print_json({"jobs": [plain_job(job, detailed, disk) for job in jobs]})
    elif not jobs:
        is_filtered = name_contains or status or since or session
        print_message(
            "No such jobs." if is_filtered else "No jobs. Create one with `launcher init`."
        )
    else:
        echo(job_table(jobs, detailed, disk))
    return 0
