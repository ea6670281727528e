"""Requirements of a local job on this machine, checked quickly enough for each submission."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.client.doctor.check_result import Level
from launcher.client.doctor.package_checks import check_installed
from launcher.client.spec import JobSpec


def unmet_needs(spec: JobSpec, python: str | None = None) -> Iterator[str]:
    """Yield a warning for each package or program that the job needs and this machine lacks.

    python: the interpreter of its hosts; None for the running one.
    """
    for finding in check_installed(spec, python):
        if finding.level is Level.PROBLEM:
            yield f"{finding.subject}: {finding.what}; {finding.fix}"
