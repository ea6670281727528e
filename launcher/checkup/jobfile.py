"""The job file: held against every rule, and against the place where it is to run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from launcher.checkup.findings import Finding, Level, Part
from launcher.errors import PlatformError, Problem, SpecError
from launcher.request.submission import prepare
from launcher.sessions.local import LocalSession
from launcher.sessions.local.checks import find_problems
from launcher.sessions.submission import new_job_name, place, place_offline
from launcher.spec import JobSpec


def read(
    job_file: Path, changes: Iterable[str], *, cloud: bool
) -> tuple[JobSpec | None, Sequence[Finding]]:
    """The job as far as it could be read, and what is to say of it."""
    try:
        spec = JobSpec.from_yaml(job_file, changes)
    except SpecError as error:
        return None, _problems(job_file, error.problems)
    try:
        found = _warnings_in_the_cloud(spec) if cloud else _warnings_here(spec)
    except SpecError as error:
        return spec, _problems(job_file, error.problems)
    except PlatformError as error:  # no job at all runs here
        return spec, [_finding(job_file, Level.PROBLEM, str(error))]
    fine = _finding(job_file, Level.OK, f"keeps every rule; {_size(spec)}")
    return spec, [fine, *(_finding(job_file, Level.WARNING, text) for text in found)]


def _warnings_here(spec: JobSpec) -> tuple[str, ...]:
    """All that a local run would warn of; SpecError for what it would refuse."""
    submission = prepare(spec, place(spec, LocalSession(), new_job_name(spec)))
    problems = find_problems(submission.request, submission.objects)
    if problems:
        raise SpecError(problems)
    return submission.warnings


def _warnings_in_the_cloud(spec: JobSpec) -> tuple[str, ...]:
    return prepare(spec, place_offline(spec, new_job_name(spec))).warnings


def _size(spec: JobSpec) -> str:
    return ", ".join(
        f"{group.instance_group_name}: {group.instance_count} x {group.instance_type}"
        for group in spec.groups
    )


def _problems(job_file: Path, problems: Sequence[Problem]) -> list[Finding]:
    return [
        _finding(job_file, Level.PROBLEM, problem.what, where=problem.where, fix=problem.fix)
        for problem in problems
    ]


def _finding(
    job_file: Path, level: Level, what: str, *, where: str | None = None, fix: str | None = None
) -> Finding:
    return Finding(
        part=Part.JOB, subject=job_file.name, level=level, what=what, where=where, fix=fix
    )
