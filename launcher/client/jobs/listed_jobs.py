"""Jobs in a list: with each its state, age, groups, cost, and last metric or failure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from launcher.client.jobs.failure_report import FailureReport, failure_of
from launcher.client.jobs.group_hosts import host_groups
from launcher.client.jobs.metric_records import final_metrics
from launcher.client.jobs.summary_layout import STATE_COLOURS
from launcher.client.sessions import KeepsJobFiles, PlatformSession, read_record
from launcher.client.show import Note, Table, readable
from launcher.errors import JobNotFound, LauncherError

if TYPE_CHECKING:
    from launcher.client.jobs.billing import Bill
    from launcher.shared import TrainingJobDescription, TrainingJobSummary

_HEADER = ("NAME", "STATUS", "AGE", "DURATION")
_DETAILS = ("COST", "GROUPS", "LAST METRIC OR REASON")


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
    bills: list[Bill | None] = []
    for job in jobs:
        name = job["TrainingJobName"]
        read = None if session is None else _read(name, session)
        details = () if session is None else tuple(_details(read))
        size = () if disk is None else (_size(name, disk),)
        rows.append((*_row(job), *size, *details))
        bills.append(read.bill if read else None)
    return Table(
        columns=columns,
        rows=rows,
        numbers=("AGE", "DURATION", "SIZE"),
        notes=_notes(bills),
        least=("GROUPS", "DURATION", "COST"),
        cut=_DETAILS[-1:],
        colours=STATE_COLOURS,
    )


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
        read, record = _read(name, session), read_record(session, name)
        described |= {
            "tags": record and dict(record.tags),
            "groups": read and [asdict(group) for group in host_groups(read.now)],
            "metrics": read and final_metrics(read.now),
            "failure_reason": read and read.now.get("FailureReason"),
            "cause": read and read.cause,
            "cost": read and read.bill and read.bill.summary(),
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
    created, now = job["CreationTime"], datetime.now(timezone.utc)
    until = job.get("TrainingEndTime") or now
    return (
        job["TrainingJobName"],
        job["TrainingJobStatus"],
        age_text((now - created).total_seconds()),
        readable((until - created).total_seconds()),
    )


def age_text(seconds: float) -> str:
    """Return an age: as hours and minutes, or from two days on as days."""
    days = int(seconds // 86_400)
    return f"{days} days" if days > 1 else readable(seconds)


@dataclass(frozen=True, kw_only=True)
class _JobReading:
    """A reading of a listed job. cause: why and where it failed, in a line; None if it did not."""

    now: TrainingJobDescription
    cause: str | None
    bill: Bill | None


def _read(name: str, session: PlatformSession) -> _JobReading | None:
    """Read a job; None if it cannot be."""
    try:
        now = session.describe_training_job(TrainingJobName=name)
        failure = failure_of(session, now, brief=True)
        cost = None
        if session.platform.bills:
            from launcher.client.jobs.billing import bill  # free jobs need not wait for it

            cost = bill(now)
        return _JobReading(now=now, cause=_reason(failure) if failure else None, bill=cost)
    except LauncherError:  # one job must not hide the others
        return None


def _reason(failure: FailureReport) -> str:
    """Return the cause before the host: a narrow terminal cuts the end."""
    return f"{failure.cause} ({failure.host})" if failure.host else failure.cause


def _notes(bills: Iterable[Bill | None]) -> list[Note]:
    """Return the notes below a table: where the prices of its costs are from."""
    known = [bill.estimate for bill in bills if bill and bill.dollars is not None]
    return [("", source) for source in dict.fromkeys(s for each in known for s in each.sources)]


def _details(read: _JobReading | None) -> Iterator[str]:
    if read is None:
        yield from ("?", "?", "")
        return
    yield read.bill.cost_text if read.bill and read.bill.dollars is not None else "-"
    groups = (f"{len(group.hosts)} x {group.instance_type}" for group in host_groups(read.now))
    yield ", ".join(groups) or "-"
    yield read.cause or last_metric(final_metrics(read.now))


def last_metric(metrics: Mapping[str, float]) -> str:
    """Return the last of a job's final metrics with its value; empty without any."""
    return f"{[*metrics][-1]} {[*metrics.values()][-1]:.4g}" if metrics else ""
