"""The git commit of a job's source."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from launcher.client.sessions.job_record import SourceCommit
from launcher.client.spec import JobSpec

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
    return None if not commit or changes is None else _commit(commit, changes)


def _commit(commit: str, changes: str) -> SourceCommit:
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
