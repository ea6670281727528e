"""Jobs in a list: with each its state, age, groups, cost, and last metric or failure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from launcher.client.jobs.failure_report import failure_of
from launcher.client.jobs.group_hosts import host_groups
from launcher.client.jobs.metric_records import final_metrics
from launcher.client.sessions import KeepsJobFiles, PlatformSession
from launcher.client.show import Note, Table, readable
from launcher.errors import JobNotFound, LauncherError
from launcher.shared import printable

if TYPE_CHECKING:
    from launcher.client.jobs.billing import Bill
    from launcher.shared import TrainingJobDescription, TrainingJobSummary

_HEADER = ("NAME", "STATUS", "CREATED", "DURATION")
_DETAILS = ("COST", "GROUPS", "LAST METRIC OR REASON")
#: Characters of the last column.
_NOTE_LENGTH = 60


def job_table(
    jobs: Sequence[TrainingJobSummary],
    session: PlatformSession | None,
    disk: KeepsJobFiles | None = None,
) -> Table:
    """Return a row for each job.

    session: describes each job, for its groups, cost, metrics and reason; None leaves them out.
    disk: measures each job's files; None leaves their size out.
    """
    size = () if disk is None else ("SIZE",)
    columns = (*_HEADER, *size, *(() if session is None else _DETAILS))
    rows = []
    bills = []
    for job in jobs:
        name = job["TrainingJobName"]
        now, bill = (None, None) if session is None else _read(name, session)
        details = () if session is None else tuple(_details(session, now, bill))
        size = () if disk is None else (_size(name, disk),)
        rows.append((*_row(job), *size, *details))
        bills.append(bill)
    return Table(columns=columns, rows=rows, numbers=("SIZE",), notes=_notes(bills))


def plain_job(
    job: TrainingJobSummary,
    session: PlatformSession | None,
    disk: KeepsJobFiles | None = None,
) -> dict[str, Any]:
    """Return a job as `-o json` prints it; what cannot be read is None.

    session, disk: as for `job_table`.
    """
    name = job["TrainingJobName"]
    described: dict[str, Any] = {
        "name": name,
        "status": job["TrainingJobStatus"],
        "creation_time": job["CreationTime"],
        "end_time": job.get("TrainingEndTime"),
    }
    if session is not None:
        now, bill = _read(name, session)
        described |= {
            "groups": now and [asdict(group) for group in host_groups(now)],
            "metrics": now and final_metrics(now),
            "failure_reason": now and now.get("FailureReason"),
            "cost": bill and bill.summary(),
        }
    if disk is not None:
        described["bytes"] = _stored_bytes(name, disk)
    return described


def _size(name: str, disk: KeepsJobFiles) -> str:
    size = _stored_bytes(name, disk)
    return "?" if size is None else f"{size / 1e6:.1f} MB"


def _stored_bytes(name: str, disk: KeepsJobFiles) -> int | None:
    """Return the size of a job's files; None if it was removed meanwhile."""
    try:
        return disk.stored_bytes(name)
    except JobNotFound:
        return None


def _row(job: TrainingJobSummary) -> tuple[str, ...]:
    created = job["CreationTime"]
    until = job.get("TrainingEndTime") or datetime.now(timezone.utc)
    return (
        job["TrainingJobName"],
        job["TrainingJobStatus"],
        f"{created.astimezone():%Y-%m-%d %H:%M:%S}",
        readable((until - created).total_seconds()),
    )


def _read(name: str, session: PlatformSession) -> tuple[TrainingJobDescription | None, Bill | None]:
    """Return a job's description and cost; None for both if these cannot be read."""
    try:
        now = session.describe_training_job(TrainingJobName=name)
        if not session.platform.bills:
            return now, None
        from launcher.client.jobs.billing import bill  # free jobs need not wait for it

        return now, bill(now)
    except LauncherError:  # one job must not hide the others
        return None, None


def _notes(bills: Iterable[Bill | None]) -> list[Note]:
    """Return the notes below a table: where the prices of its costs are from."""
    known = [bill.estimate for bill in bills if bill and bill.dollars is not None]
    return [("", source) for source in dict.fromkeys(s for each in known for s in each.sources)]


def _details(
    session: PlatformSession, now: TrainingJobDescription | None, bill: Bill | None
) -> Iterator[str]:
    if now is None:
        yield from ("?", "?", "")
        return
    yield bill.cost_text if bill and bill.dollars is not None else "-"
    groups = (f"{len(group.hosts)} x {group.instance_type}" for group in host_groups(now))
    yield ", ".join(groups) or "-"
    metrics = [f"{name} {value:.4g}" for name, value in final_metrics(now).items()]
    failure = failure_of(session, now, brief=True)
    note = failure.headline if failure else (metrics[-1] if metrics else "")
    line = printable(note, keep_styles=False)
    yield line if len(line) <= _NOTE_LENGTH else line[: _NOTE_LENGTH - 1] + "…"
