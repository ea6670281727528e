"""Records of how jobs were made, for `status -v` and `rerun`; a job without one is not ours.

A record is made when a job is sent, kept as a file, and read to show the job or to send it again.
Few verbs send a job again, so what that needs is imported there.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import launcher
from launcher.client.sessions.base import KeepsRecords, PlatformSession
from launcher.errors import LauncherError, PlatformError, SpecError
from launcher.shared import BUNDLE_CODE, BUNDLE_FILE, PARTITION_FILE

if TYPE_CHECKING:
    from importlib.metadata import Distribution

    from launcher.client.spec import JobSpec

_VERSION = 1
#: The folder with the job's code, beside its job file.
SOURCE_FOLDER = "source"
#: Seconds that git may take: a job does not wait for a slow disk.
_GIT_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class SourceCommit:
    """The commit that is checked out in a repository, in hexadecimal.

    is_dirty: files of the repository differ from it, or are not in it and not ignored.
    """

    commit: str
    is_dirty: bool


@dataclass(frozen=True, kw_only=True)
class JobOrigin:
    """The origin of a job, for its record.

    command_line: the words of the command, without secrets; default: the script of this process,
        whose other words may be secrets.
    git: the commit of the source; default: that of its folder, unless the job is a rerun.
    rerun_of: the name of the job that is repeated.
    """

    command_line: tuple[str, ...] = ()
    git: SourceCommit | None = None
    rerun_of: str | None = None

    def completed(self, spec: JobSpec) -> JobOrigin:
        """Return the origin of a job whose source is on this machine, with its defaults."""
        return JobOrigin(
            command_line=self.command_line or tuple(sys.argv[:1]),
            git=self.git if self.rerun_of else commit_of_source(spec),
            rerun_of=self.rerun_of,
        )


@dataclass(frozen=True, kw_only=True)
class JobRecord:
    """The circumstances of a job: values of environment variables are not among them.

    launcher, python: versions; packages: "name==version" of what is installed beside the client.
    command_line: the words of `launcher run`, or the script that called the Estimator.
    variables: the names of the job's own environment variables.
    code_uri: the prefix that holds the job's code as it was sent.
    job: the job as YAML, its source in the folder "source"; None if YAML cannot hold its values.
    rerun_of: the name of the job that it repeats.
    attempts: the names of its attempts, itself the first; empty for a job that has one.
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
    attempts: Sequence[str] = ()
    tags: Mapping[str, str] = field(default_factory=dict)

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


def new_record(spec: JobSpec, origin: JobOrigin, code_uri: str) -> JobRecord:
    """Return the record of a job that this process sends."""
    return JobRecord(
        launcher=launcher.__version__,
        python=platform.python_version(),
        command_line=origin.command_line,
        git=origin.git,
        packages=_installed_packages(),
        hyperparameters=dict(spec.hyperparameters),
        variables=sorted({*spec.environment, *spec.extra_request.get("Environment", {})}),
        code_uri=code_uri,
        job=job_file(spec),
        rerun_of=origin.rerun_of,
        tags=dict(spec.tags),
    )


def job_file(spec: JobSpec) -> str | None:
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

    found = {_name_and_version(each) for each in distributions()}
    return tuple(sorted((f"{name}=={version}" for name, version in found), key=str.lower))


def _name_and_version(package: Distribution) -> tuple[str, str]:
    """Read both from the head of the package's metadata.

    Measured: the whole of it, which `package.name` parses, takes ten times as long.
    """
    text = package.read_text("METADATA") or package.read_text("PKG-INFO") or ""
    head = dict(line.partition(": ")[::2] for line in text.partition("\n\n")[0].splitlines())
    if "Name" in head and "Version" in head:
        return head["Name"], head["Version"]
    return package.name, package.version


def commit_of_source(spec: JobSpec) -> SourceCommit | None:
    """Return the commit of the repository that holds a job's source.

    None for a source outside any repository, or in one without a commit, and without git.
    """
    if not spec.runs_script or spec.has_remote_source:
        return None
    folder = Path(spec.source_dir or Path(spec.entry_point).parent)
    commit = _answer(folder, "rev-parse", "--verify", "HEAD")
    changes = commit and _answer(folder, "status", "--porcelain")
    if not commit or changes is None:
        return None
    return SourceCommit(commit=commit.strip(), is_dirty=bool(changes.strip()))


def _answer(folder: Path, *question: str) -> str | None:
    """Return what git prints about the repository of a folder; None if it fails."""
    try:
        asked = subprocess.run(
            ["git", "-C", str(folder), *question],
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},  # it may be in use meanwhile
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return asked.stdout


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
    from launcher.client.spec import JobSpec, anchored  # not for those that only read a record

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
    from launcher.client.request import SOURCE_FILE
    from launcher.client.sessions.remote_source import unpack_source

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
