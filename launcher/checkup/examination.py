"""The examination as a whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from pathlib import Path

from launcher.checkup import cloud as aws
from launcher.checkup import isolations, jobfile, machine, packages
from launcher.checkup.findings import Checkup, Finding, Level


def examine(job_file: Path | None, changes: Iterable[str] = (), *, cloud: bool = False) -> Checkup:
    """Look at this machine, at AWS and at a job file.

    changes: of the job file, as "path=value".
    cloud: the job is meant for AWS, so that what is wrong there is a problem; else it is a warning.
    """
    return Checkup(findings=tuple(_findings(job_file, changes, cloud)))


def _findings(job_file: Path | None, changes: Iterable[str], cloud: bool) -> Iterator[Finding]:
    spec, of_job = jobfile.read(job_file, changes, cloud=cloud) if job_file else (None, ())
    of_machine = [
        machine.check_python(),
        *packages.check(spec),
        *isolations.check(),
        machine.check_home(),
    ]
    # A machine that only submits needs no torch and no place for jobs.
    yield from map(_softened, of_machine) if cloud else of_machine
    of_aws = aws.check(spec, ask_instance=cloud)
    yield from of_aws if cloud else map(_softened, of_aws)
    yield from of_job


def _softened(finding: Finding) -> Finding:
    """A problem in the way of other jobs than the one that is asked about."""
    if finding.level is not Level.PROBLEM or finding.subject == "python":
        return finding
    return dataclasses.replace(finding, level=Level.WARNING)
