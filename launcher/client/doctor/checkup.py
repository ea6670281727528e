"""All checks: this machine, AWS and the job file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

from launcher.client.doctor import cloud_checks as aws
from launcher.client.doctor import (
    job_file_checks,
    machine_checks,
    package_checks,
    requirement_checks,
)
from launcher.client.doctor.check_result import CheckResult, Checkup, Level
from launcher.client.sessions.completed_spec import with_defaults
from launcher.client.sessions.default_values import read_defaults
from launcher.client.sessions.resolve import aws_session, local_session
from launcher.client.spec import JobSpec


def run_checks(
    job_file: Path | None, changes: Iterable[str] = (), *, cloud: bool = False
) -> Checkup:
    """Check this machine, AWS and a job file.

    changes: to the job file, as "path=value".
    cloud: the job is for AWS, so failures there are problems; otherwise they are warnings.
    """
    return Checkup(findings=tuple(_findings(job_file, changes, cloud)))


def check_aws(spec: JobSpec) -> Iterator[CheckResult]:
    """Check a job for AWS: the caller's identity, and the resources that the job names."""
    return aws.check(with_defaults(spec, read_defaults()), use_instance_role=True)


def _findings(job_file: Path | None, changes: Iterable[str], cloud: bool) -> Iterator[CheckResult]:
    spec, read_findings = job_file_checks.read(job_file, changes) if job_file else (None, ())
    if cloud and spec:
        spec = with_defaults(spec, read_defaults())
    machine_findings = [
        machine_checks.check_python(),
        *package_checks.check(spec),
        *machine_checks.check_isolations(),
        machine_checks.check_home(),
    ]
    # A machine that only submits needs no torch and no job folder.
    yield from map(_as_warning, machine_findings) if cloud else machine_findings
    aws_findings = tuple(aws.check(spec, use_instance_role=cloud))
    yield from aws_findings if cloud else map(_as_warning, aws_findings)
    yield from read_findings
    if job_file and spec:
        find_session = aws_session if cloud else local_session
        offline = cloud and not _is_reachable(aws_findings)
        yield from job_file_checks.check_job(job_file, spec, find_session, offline=offline)
        yield from requirement_checks.check(spec, cloud=cloud)


def _is_reachable(aws_findings: Iterable[CheckResult]) -> bool:
    """Return whether AWS answers in a region, so that it can be asked about a job."""
    fine = {finding.subject for finding in aws_findings if finding.level is Level.OK}
    return {"credentials", "region"} <= fine


def _as_warning(finding: CheckResult) -> CheckResult:
    """Downgrade a problem to a warning, except for an unsupported Python."""
    if finding.level is not Level.PROBLEM or finding.subject == "python":
        return finding
    return dataclasses.replace(finding, level=Level.WARNING)
