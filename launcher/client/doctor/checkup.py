"""All checks: this machine, AWS and the job file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from launcher.client.doctor import cloud_checks as aws
from launcher.client.doctor import (
    container_checks,
    dataset_checks,
    job_file_checks,
    machine_checks,
    package_checks,
    requirement_checks,
)
from launcher.client.doctor.check_result import CheckResult, Checkup, Level
from launcher.client.doctor.container_checks import ImageLook
from launcher.client.doctor.dataset_process import ReadLimits
from launcher.client.sessions import (
    Platform,
    PlatformSession,
    open_session,
    read_defaults,
    with_defaults,
    with_platform_defaults,
)
from launcher.client.spec import JobSpec


def run_checks(
    job_file: Path | None,
    changes: Iterable[str] = (),
    *,
    session: str = "local",
    data: ReadLimits | None = None,
    image: ImageLook | None = None,
    on_finding: Callable[[Platform, CheckResult], None] = lambda _platform, _finding: None,
) -> Checkup:
    """Check this machine, AWS and a job file.

    changes: to the job file, as "path=value".
    session: where the job is to run, by its name in the registry. What is wrong with this machine
        or with AWS is a problem if that session needs it; otherwise it is a warning.
    data: how much of each dataset is read; None to read none.
    image: how the job's image is looked into; None not to do so.
    on_finding: called with each finding as it is made; some take seconds.

    Raises PlatformError for an unknown session.
    """
    opened = open_session(session)
    findings = []
    for finding in _findings(job_file, changes, opened, data, image):
        on_finding(opened.platform, finding)
        findings.append(finding)
    return Checkup(platform=opened.platform, findings=tuple(findings))


def check_aws(spec: JobSpec) -> Iterator[CheckResult]:
    """Check a job for AWS: the caller's identity, and the resources that the job names."""
    return aws.check(with_defaults(spec, read_defaults()), use_instance_role=True)


def _findings(
    job_file: Path | None,
    changes: Iterable[str],
    session: PlatformSession,
    data: ReadLimits | None,
    image: ImageLook | None,
) -> Iterator[CheckResult]:
    platform = session.platform
    spec, read_findings = job_file_checks.read(job_file, changes) if job_file else (None, ())
    if spec:
        spec = with_platform_defaults(spec, platform)
    # A machine that only submits needs no torch and no job folder.
    machine_findings = _machine_findings(spec)
    yield from machine_findings if platform.runs_here else map(_as_warning, machine_findings)
    aws_findings = []
    for finding in aws.check(spec, use_instance_role=platform.uses_aws):
        aws_findings.append(finding)
        yield finding if platform.uses_aws else _as_warning(finding)
    yield from read_findings
    if job_file and spec:
        offline = platform.uses_aws and not _is_reachable(aws_findings)
        yield from job_file_checks.check_job(job_file, spec, session, offline=offline)
        yield from requirement_checks.check(spec, runs_image=platform.runs_image)
        if image:
            yield from container_checks.check(spec, image)
        if data:
            yield from dataset_checks.check(spec, data, session, offline=offline)


def _machine_findings(spec: JobSpec | None) -> Iterator[CheckResult]:
    yield machine_checks.check_python()
    yield from package_checks.check(spec)
    yield from machine_checks.check_isolations()
    yield machine_checks.check_home()


def _is_reachable(aws_findings: Iterable[CheckResult]) -> bool:
    """Return whether AWS answers in a region, so that it can be asked about a job."""
    fine = {finding.subject for finding in aws_findings if finding.level is Level.OK}
    return {"credentials", "region"} <= fine


def _as_warning(finding: CheckResult) -> CheckResult:
    """Downgrade a problem to a warning, except for an unsupported Python."""
    if finding.level is not Level.PROBLEM or finding.subject == "python":
        return finding
    return dataclasses.replace(finding, level=Level.WARNING)
