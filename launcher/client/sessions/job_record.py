"""The record of how a job was made: what `launcher status -v` shows, and `launcher rerun` reads."""

from __future__ import annotations

import contextlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import launcher
from launcher.client.request.source_commit import SourceCommit
from launcher.client.sessions.base import KeepsRecords, PlatformSession
from launcher.client.spec import JobSpec
from launcher.errors import SpecError
from launcher.shared import PARTITION_FILE

_VERSION = 1
#: The folder with the job's code, beside its job file.
SOURCE_FOLDER = "source"


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


def new_record(
    spec: JobSpec,
    *,
    git: SourceCommit | None,
    command_line: Sequence[str],
    code_uri: str,
    rerun_of: str | None,
) -> JobRecord:
    """Return the record of a job that this process sends."""
    return JobRecord(
        launcher=launcher.__version__,
        python=platform.python_version(),
        command_line=tuple(command_line),
        git=git,
        packages=_installed_packages(),
        hyperparameters=dict(spec.hyperparameters),
        variables=sorted({*spec.environment, *spec.extra_request.get("Environment", {})}),
        code_uri=code_uri,
        job=_job_file(spec),
        rerun_of=rerun_of,
    )


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


def records_folder() -> Path:
    """Return the folder of the records of jobs elsewhere: below $LAUNCHER_HOME, or ~/.launcher."""
    return Path(os.environ.get("LAUNCHER_HOME") or "~/.launcher").expanduser() / "records"


def _job_file(spec: JobSpec) -> str | None:
    """Return the job file that describes a job beside its code as it was sent."""
    extra = {name: each for name, each in spec.extra_request.items() if name != "Environment"}
    bare = spec.replace(environment={}, extra_request=extra)
    if spec.runs_script and not (spec.starts_toolkit and spec.has_remote_source):
        bare = _beside_its_code(bare)
    try:
        return bare.to_yaml()
    except SpecError:
        return None


def _beside_its_code(spec: JobSpec) -> JobSpec:
    """Return a job whose code, with all dependencies, is in a folder beside its job file."""
    name = Path(spec.source_dir).name if spec.source_dir else ""
    distribution = spec.distribution
    return spec.replace(
        entry_point=spec.script,
        source_dir=f"{SOURCE_FOLDER}/{name or 'code'}",
        dependencies=(),
        distribution=distribution and distribution.anchored(lambda _path: PARTITION_FILE),
    )


def _installed_packages() -> tuple[str, ...]:
    from importlib.metadata import distributions  # 15 ms to import

    names = {(each.name, each.version) for each in distributions()}
    return tuple(sorted((f"{name}=={version}" for name, version in names), key=str.lower))
