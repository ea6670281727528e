"""A job as its record has it: its job file, beside the code that was sent."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from launcher.client.request import SOURCE_FILE
from launcher.client.sessions.base import KeepsRecords, PlatformSession
from launcher.client.sessions.job_record import JobRecord, read_record
from launcher.client.sessions.remote_source import unpack_source
from launcher.client.spec import JobSpec, anchored
from launcher.errors import LauncherError, PlatformError
from launcher.shared import BUNDLE_CODE, BUNDLE_FILE, PARTITION_FILE


@dataclass(frozen=True, kw_only=True)
class RestoredJob:
    """A job that can be sent again: its job file, the session with its options, and its record.

    job_file: its text, in which paths are absolute.
    """

    job_file: str
    session: PlatformSession
    record: JobRecord


def restore_job(name: str, session: PlatformSession, home: Path) -> RestoredJob:
    """Write the code that a job was sent with into an empty folder, and return the job.

    Raises PlatformError for a job whose record, or whose code, does not exist.
    """
    record = read_record(session, name)
    if record is None or not isinstance(session, KeepsRecords):
        what = "it has no record: an older Launcher, another client or another machine sent it"
        raise _not_repeatable(name, what)
    if record.job is None:
        raise _not_repeatable(name, "its record has no job file: YAML cannot hold all its values")
    described = session.describe_training_job(TrainingJobName=name)
    sent = described.get("Environment", {})
    if lost := [variable for variable in record.variables if variable not in sent]:
        what = f"its platform does not return the values of its variables {', '.join(lost)}"
        raise _not_repeatable(name, what)
    variables = {variable: sent[variable] for variable in record.variables}
    spec = JobSpec.from_yaml(record.job).replace(environment=variables)
    try:
        _fetch_code(spec, session, record.code_uri, home)
    except (LauncherError, OSError) as error:
        raise _not_repeatable(name, f"its code is gone: {error}") from error
    job_file = anchored(spec, home).to_yaml()
    return RestoredJob(job_file=job_file, session=session.session_as_of(name), record=record)


def _fetch_code(spec: JobSpec, session: PlatformSession, uri: str, home: Path) -> None:
    if not spec.runs_script or spec.has_remote_source:
        return
    source = home / str(spec.source_dir)
    source.parent.mkdir()
    is_toolkit = spec.starts_toolkit
    archive_uri = uri + (SOURCE_FILE if is_toolkit else BUNDLE_FILE)
    with tempfile.TemporaryDirectory() as scratch:
        archive = Path(scratch, "code.tar.gz")
        session.download(archive_uri, archive)
        unpack_source(archive, source, archive_uri, below="" if is_toolkit else BUNDLE_CODE)
    if getattr(spec.distribution, "partition_file", None):
        session.download(uri + PARTITION_FILE, home / PARTITION_FILE)


def _not_repeatable(name: str, reason: str) -> PlatformError:
    fix = "run its job file: launcher run JOB_FILE"
    return PlatformError(f"job {name} cannot be repeated: {reason}\n  fix: {fix}")
