"""Records of how jobs were made, for `status -v` and `rerun`; a job without one is not ours."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from launcher.client.home import home_folder
from launcher.client.sessions.base import KeepsJobFiles, KeepsRecords, PlatformSession

_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class SourceCommit:
    """The commit that is checked out in a repository, in hexadecimal.

    is_dirty: files of the repository differ from it, or are not in it and not ignored.
    """

    commit: str
    is_dirty: bool


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """The circumstances of a job: values of environment variables are not among them.

    launcher, python: versions; packages: "name==version" of what is installed beside the client.
    command_line: the words of `launcher run`, or the script that called the Estimator.
    variables: the names of the job's own environment variables.
    code_uri: the prefix that holds the job's code as it was sent.
    job: the job as YAML, its source in the folder "source"; None if YAML cannot hold its values.
    rerun_of: the name of the job that it repeats.
    """

    launcher: str
    python: str
    command_line: Sequence[str]
    git: SourceCommit | None
    packages: Sequence[str]
    hyperparameters: Mapping[str, Any]
    variables: Sequence[str]
    code_uri: str
    job: str | None = field(repr=False)
    rerun_of: str | None = None

    def to_plain(self) -> dict[str, Any]:
        """Return the record as values of JSON."""
        return {"version": _VERSION, **asdict(self)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> JobRecord | None:
        """Return a record that `to_plain` wrote; None for one of another version."""
        values = dict(plain)
        if values.pop("version", None) != _VERSION:
            return None
        git = values.pop("git")
        return cls(git=git and SourceCommit(**git), **values)


def write_record(session: PlatformSession, job_name: str, record: JobRecord) -> None:
    """Keep the record of a job where its session keeps records.

    The job runs already: a disk that cannot be written is noticed when the record is asked for.
    """
    if isinstance(session, KeepsRecords):
        with contextlib.suppress(OSError):
            file = session.record_file(job_name)
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file.touch(mode=0o600)
            file.write_text(json.dumps(record.to_plain(), indent=2, default=str), encoding="utf-8")


def read_record(session: PlatformSession, job_name: str) -> JobRecord | None:
    """Return the record of a job; None if this machine has none that this version can read."""
    if not isinstance(session, KeepsRecords):
        return None
    try:
        text = session.record_file(job_name).read_text(encoding="utf-8")
        return JobRecord.from_plain(json.loads(text))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def is_from_here(session: PlatformSession, job_name: str) -> bool:
    """Return whether this machine sent a job, by its record, or keeps the job itself."""
    if isinstance(session, KeepsJobFiles):
        return True
    return isinstance(session, KeepsRecords) and session.record_file(job_name).is_file()


def records_folder() -> Path:
    """Return the folder of the records of jobs elsewhere: below $LAUNCHER_HOME, or ~/.launcher."""
    return home_folder() / "records"
