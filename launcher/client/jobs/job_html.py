"""A job as HTML, for notebooks; nothing in it is loaded from a network."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from launcher.client.jobs.failure_report import failure_of
from launcher.client.jobs.group_hosts import host_groups
from launcher.client.jobs.metric_records import final_metrics
from launcher.client.jobs.summary import model_uri
from launcher.client.show import notes_html, readable
from launcher.errors import LauncherError

if TYPE_CHECKING:
    from launcher.client.jobs.job import Job
    from launcher.shared import TrainingJobDescription


def job_html(job: Job) -> str:
    """Return a table of a job's state, machines, metrics and outcome, or why it is not known."""
    try:
        facts = [*_facts(job, job.description())]
    except LauncherError as error:
        facts = [("Status", f"not known: {str(error).splitlines()[0]}")]
    return notes_html([("Job", job.name), *facts])


def _facts(job: Job, now: TrainingJobDescription) -> Iterator[tuple[str, str]]:
    status, secondary = now["TrainingJobStatus"], now["SecondaryStatus"]
    until = now.get("TrainingEndTime") or datetime.now(timezone.utc)
    after = f" after {readable((until - now['CreationTime']).total_seconds())}"
    yield "Status", status + (f" ({secondary})" if secondary != status else "") + after
    for group in host_groups(now):
        yield "Group", f"{group.name}: {len(group.hosts)} x {group.instance_type}"
    if failure := failure_of(job.session, now, brief=True):
        yield "Cause", "\n".join((failure.headline, *failure.lines))
    for name, value in final_metrics(now).items():
        yield "Metric", f"{name} = {value:.6g}"
    if model := model_uri(now):
        yield "Model", model
