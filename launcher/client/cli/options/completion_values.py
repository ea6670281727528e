"""Shell completion: jobs on this machine, groups and hosts of a job, job files.

Completion never fails and never prints messages: without candidates it offers nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from launcher.client.home import home_folder
from launcher.errors import LauncherError


def jobs(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the jobs on this machine that match, newest first."""
    from launcher.client.sessions import JobRoot  # only when needed

    try:
        names = JobRoot(home_folder()).newest_names()
    except LauncherError:
        return []
    return [name for name in names if name.startswith(incomplete)]


def groups(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the matching groups of the job on the command line."""
    names = (group.name for group in _groups(_job(context)))
    return [name for name in names if name.startswith(incomplete)]


def hosts(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the matching hosts of the job on the command line, within its --group if given."""
    wanted = context.params.get("group")
    return [
        host
        for group in _groups(_job(context))
        for host in group.hosts
        if wanted in (None, group.name) and host.startswith(incomplete)
    ]


def sessions(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the matching names of sessions."""
    from launcher.client.sessions import session_names  # only when needed

    return [name for name in session_names() if name.startswith(incomplete)]


def job_files(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return YAML files at and below the typed path; without any, offer the shell's own paths."""
    start = Path(incomplete).parent if not incomplete.endswith("/") else Path(incomplete)
    prefix = "./" if incomplete.startswith("./") else ""
    found = sorted(prefix + str(path) for path in job_files_below(start))
    # A name with blanks or control characters needs quoting, as the shell quotes its own paths.
    unquoted = [name for name in found if name.startswith(incomplete) and _is_word(name)]
    return [CompletionItem(name) for name in unquoted] or [CompletionItem(incomplete, type="file")]


def _is_word(name: str) -> bool:
    """Return whether a name is one word of a command line without quotes."""
    return len(name.split()) == 1 and name.isprintable()


def _job(context: click.Context) -> str | None:
    """Return the job on the command line.

    Click leaves it unparsed when an option before it has no value yet.
    """
    named: str | None = context.params.get("name")
    return named or next(iter(context.args), None)


def _groups(job: str | None) -> list[Any]:
    from launcher.client.jobs import host_groups  # imported only for a named job
    from launcher.client.sessions import local_session

    if not job:
        return []
    try:
        return list(host_groups(local_session().describe_training_job(TrainingJobName=job)))
    except LauncherError:
        return []


_SUFFIXES = (".yaml", ".yml")
#: How many levels to search, and how many entries at most.
_DEPTH = 3
_MOST_ENTRIES = 2000


def job_files_below(start: Path) -> Iterator[Path]:
    """Yield job files, nearest first, skipping hidden folders and Python environments."""
    level, seen = [start], 0
    for _ in range(_DEPTH):
        deeper: list[Path] = []
        for folder in level:
            for entry in _entries(folder):
                seen += 1
                if seen > _MOST_ENTRIES:
                    return
                if entry.suffix in _SUFFIXES:
                    yield entry
                elif _is_searched(entry):
                    deeper.append(entry)
        level = deeper


def _is_searched(entry: Path) -> bool:
    """Return whether an entry is a folder that may be read, and no Python environment."""
    try:
        return entry.is_dir() and not (entry / "pyvenv.cfg").exists()
    except OSError:
        return False


def _entries(folder: Path) -> list[Path]:
    try:
        names = os.listdir(folder)  # noqa: PTH208  half the time of iterdir
    except OSError:
        return []
    return [folder / name for name in sorted(names) if not name.startswith(".")]
