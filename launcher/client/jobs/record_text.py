"""The record of how a job was sent (its JobRecord), as text for a person."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from launcher.client.jobs.summary_layout import summary_row


def job_record_text(record: Mapping[str, Any] | None) -> str:
    """Return how a job was made: command, commit, hyperparameters, and installed packages."""
    if record is None:
        return "\nNo record of this job: another client, machine or older Launcher sent it"
    return "\n" + "\n".join(_lines(record))


def _lines(record: Mapping[str, Any]) -> Iterator[str]:
    yield summary_row("Launcher", f"{record['launcher']}, Python {record['python']}")
    if record["rerun_of"]:
        yield summary_row("Repeats", record["rerun_of"])
    yield summary_row("Command", shlex.join(record["command_line"]))
    yield summary_row("Commit", _commit(record["git"]))
    for number, (name, value) in enumerate(record["hyperparameters"].items()):
        yield summary_row("" if number else "Params", f"{name} = {value}")
    if record["variables"]:
        yield summary_row("Environ", ", ".join(record["variables"]))
    packages = record["packages"]
    yield summary_row("Packages", f"{len(packages)} installed: {', '.join(packages)}")


def _commit(git: Mapping[str, Any] | None) -> str:
    if git is None:
        return "none: the source is in no git repository, or git did not answer"
    return f"{git['commit']}{', with uncommitted changes' if git['is_dirty'] else ''}"
