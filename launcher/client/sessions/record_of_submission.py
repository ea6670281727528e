"""The record of a job that this process sends, with the git commit of its source."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import launcher
from launcher.client.sessions.job_record import JobRecord, SourceCommit
from launcher.client.spec import JobSpec
from launcher.errors import SpecError
from launcher.shared import PARTITION_FILE

if TYPE_CHECKING:
    from importlib.metadata import Distribution


#: The folder with the job's code, beside its job file.
SOURCE_FOLDER = "source"


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


#: Seconds that git may take: a job does not wait for a slow disk.
_TIMEOUT = 10.0


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
            timeout=_TIMEOUT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return asked.stdout
