"""`launcher list`: list the jobs, newest first."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from launcher.client.cli.age_option import since_option
from launcher.client.cli.json_output import print_json
from launcher.client.cli.session_options import session_option
from launcher.client.cli.verb_output import print_message, with_output_option
from launcher.client.sessions.registry import open_session

if TYPE_CHECKING:
    from launcher.shared.training_job_types import TrainingJobSummary

_STATUSES = ("InProgress", "Completed", "Failed", "Stopping", "Stopped")


@click.command("list")
@click.option("--name-contains", help="Only jobs whose name contains this.")
@click.option("--status", type=click.Choice(_STATUSES), help="Only jobs in this state.")
@since_option
@click.option("--limit", type=click.IntRange(min=1), help="At most this many jobs, newest first.")
@session_option
@with_output_option
def list_jobs(
    name_contains: str | None,
    status: str | None,
    since: datetime | None,
    limit: int | None,
    session: str | None,
    output: str,
) -> int:
    """List jobs, newest first."""
    jobs = open_session(session or "local").list_training_jobs(
        NameContains=name_contains, StatusEquals=status, CreationTimeAfter=since, limit=limit
    )["TrainingJobSummaries"]
    if output == "json":
        print_json({"jobs": [_plain(job) for job in jobs]})
    elif not jobs:
        is_filtered = name_contains or status or since or session
        print_message(
            "No such jobs." if is_filtered else "No jobs. Create one with `launcher init`."
        )
    else:
        width = max(len(job["TrainingJobName"]) for job in jobs)
        for job in jobs:
            click.echo(_row(job, width))
    return 0


def _row(job: TrainingJobSummary, width: int) -> str:
    created = _local_time(job["CreationTime"])
    return f"{job['TrainingJobName']:<{width}}  {job['TrainingJobStatus']:<10}  {created}"


def _plain(job: TrainingJobSummary) -> dict[str, Any]:
    return {
        "name": job["TrainingJobName"],
        "status": job["TrainingJobStatus"],
        "creation_time": job["CreationTime"],
        "end_time": job.get("TrainingEndTime"),
    }


def _local_time(moment: datetime) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"
