"""Shell completion: jobs on this machine, groups and hosts of a job, job files.

Completion never fails and never prints messages: without candidates it offers nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from launcher.client.cli.job_file_search import job_files_below
from launcher.client.home import home_folder
from launcher.errors import LauncherError


def jobs(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the jobs on this machine that match, newest first."""
    from launcher.client.sessions.local.job_root import JobRoot  # only when needed

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
    from launcher.client.sessions.registry import session_names  # only when needed

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
    from launcher.client.jobs.group_hosts import host_groups  # imported only for a named job
    from launcher.client.sessions.resolve import local_session

    if not job:
        return []
    try:
        return list(host_groups(local_session().describe_training_job(TrainingJobName=job)))
    except LauncherError:
        return []
