"""The whole examination: this machine, AWS and the job file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

from launcher.client.doctor import cloud_checks as aws
from launcher.client.doctor import isolation_checks, job_file_checks, machine_checks, package_checks
from launcher.client.doctor.check_result import CheckResult, Checkup, Level
from launcher.client.sessions.resolve import aws_session, local_session
from launcher.client.spec import JobSpec


def examine(job_file: Path | None, changes: Iterable[str] = (), *, cloud: bool = False) -> Checkup:
    """Examine this machine, AWS and a job file.

    changes: to the job file, as "path=value".
    cloud: the job is meant for AWS, so that failures there are problems; otherwise warnings.
    """
    return Checkup(findings=tuple(_findings(job_file, changes, cloud)))


def check_aws(spec: JobSpec) -> Iterator[CheckResult]:
    """Check a job that is meant for AWS: our identity there, and all that the job names."""
    return aws.check(spec, use_instance_role=True)


def _findings(job_file: Path | None, changes: Iterable[str], cloud: bool) -> Iterator[CheckResult]:
    spec, unreadable = job_file_checks.read(job_file, changes) if job_file else (None, ())
    of_machine = [
        machine_checks.check_python(),
        *package_checks.check(spec),
        *isolation_checks.check(),
        machine_checks.check_home(),
    ]
    # A machine that only submits needs no torch and no job folder.
    yield from map(_softened, of_machine) if cloud else of_machine
    of_aws = tuple(aws.check(spec, use_instance_role=cloud))
    yield from of_aws if cloud else map(_softened, of_aws)
    yield from unreadable
    if job_file and spec:
        find_session = aws_session if cloud else local_session
        offline = cloud and not _answers(of_aws)
        yield from job_file_checks.judge(job_file, spec, find_session, offline=offline)


def _answers(of_aws: Iterable[CheckResult]) -> bool:
    """Return whether AWS answers in a region, so that it can be asked about a job."""
    fine = {finding.subject for finding in of_aws if finding.level is Level.OK}
    return {"credentials", "region"} <= fine


def _softened(finding: CheckResult) -> CheckResult:
    """Downgrade a problem to a warning if it does not affect the job in question."""
    if finding.level is not Level.PROBLEM or finding.subject == "python":
        return finding
    return dataclasses.replace(finding, level=Level.WARNING)
