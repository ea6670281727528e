"""Checks of the job file against every rule, and against the platform of the job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from launcher.client.catalogue import price_list, update_fix
from launcher.client.doctor.check_result import CheckResult, CheckSection, Level
from launcher.client.jobs import check_trackers
from launcher.client.request import SourceTree, read_job
from launcher.client.sessions import PlatformSession, new_job_name, place_completed, with_source
from launcher.client.spec import JobSpec, memory_shortages
from launcher.errors import CloudError, PlatformError, Problem, RequestRefused, SpecError
from launcher.shared import OTHER_NAME, PACKAGE

_finding = CheckSection.JOB.finding


def read(job_file: Path, changes: Iterable[str]) -> tuple[JobSpec | None, Sequence[CheckResult]]:
    """Return the job; or None, with the reasons why it cannot be read."""
    try:
        return read_job(job_file, changes), ()
    except SpecError as error:
        return None, _problems(job_file, error.problems)


def check_job(
    job_file: Path, spec: JobSpec, session: PlatformSession, *, offline: bool = False
) -> Sequence[CheckResult]:
    """Return the findings about a job, which has its defaults.

    offline: the session is SageMaker's, which cannot be asked now.
    """
    doubts = [*_memory(job_file, spec, session), *_unlisted(job_file, spec, session)]
    try:
        whole = spec if offline else with_source(spec, session)
        placed = place_completed(whole, session, new_job_name(spec), offline=offline)
        placed.check()
        check_trackers(spec)
    except (SpecError, RequestRefused) as error:
        return [*_problems(job_file, error.problems), *doubts]
    except (PlatformError, CloudError) as error:  # no job can run there
        return [_finding(job_file.name, Level.PROBLEM, str(error))]
    if any(each.level is Level.PROBLEM for each in doubts):
        return doubts
    fine = [
        _finding(job_file.name, Level.OK, text) for text in (f"valid; {_size(spec)}", *_names(spec))
    ]
    return [
        *fine,
        *doubts,
        *(_finding(job_file.name, Level.WARNING, text) for text in placed.warnings),
    ]


def _memory(job_file: Path, spec: JobSpec, session: PlatformSession) -> Iterator[CheckResult]:
    """Yield the groups whose hosts' memory is too small, as `launcher plan` judges them.

    It is no problem for a job on this machine, whose memory is not that of the type.
    """
    for each in memory_shortages(spec):
        is_problem = each.is_certain and session.platform.bills
        level = Level.PROBLEM if is_problem else Level.WARNING
        fix = "use a larger type, or less prefetch_bytes and fewer workers of the data_service"
        yield _finding(job_file.name, level, each.what, fix=fix)


def _unlisted(job_file: Path, spec: JobSpec, session: PlatformSession) -> Iterator[CheckResult]:
    """Yield the types that AWS's price list of the region, if it was ever read, does not have."""
    if not session.platform.bills:
        return
    try:
        region, prices = session.region, price_list()
    except CloudError:  # none is configured: no list is of it
        return
    except SpecError as error:
        for each in error.problems:
            yield _finding(job_file.name, Level.WARNING, each.what, where=each.where, fix=each.fix)
        return
    for name in dict.fromkeys(group.instance_type for group in spec.groups if not group.is_local):
        if day := prices.unlisted_on(name, region):
            what = f"AWS's price list of {day} has no {name} in {region}"
            fix = f"use another type or region, or a newer list: {update_fix(region)}"
            yield _finding(job_file.name, Level.WARNING, what, fix=fix)


def _names(spec: JobSpec) -> Iterator[str]:
    """Yield how the package is imported beside a module of the user's that has its name."""
    files = () if spec.has_remote_source else SourceTree(spec).files
    paths = {f"{PACKAGE}.py", f"{PACKAGE}/__init__.py"} & {file.path for file in files}
    for path in sorted(paths):
        yield (
            f"{path} has this package's name: on hosts, `import {PACKAGE}` finds both; in a "
            f"notebook or script in its folder, write `import {OTHER_NAME}`, the same package"
        )


def _size(spec: JobSpec) -> str:
    return ", ".join(
        f"{group.instance_group_name}: {group.instance_count} x {group.instance_type}"
        for group in spec.groups
    )


def _problems(job_file: Path, problems: Sequence[Problem]) -> list[CheckResult]:
    return [
        _finding(job_file.name, Level.PROBLEM, problem.what, where=problem.where, fix=problem.fix)
        for problem in problems
    ]
