"""Findings of a check, one for each thing that was checked."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from launcher.client.sessions import Platform


class Level(str, enum.Enum):
    """Severity: a WARNING may prevent some job, a PROBLEM does."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class CheckSection(str, enum.Enum):
    """Subject area of a finding."""

    MACHINE = "machine"
    JOB = "job"
    AWS = "aws"
    DATA = "data"

    def finding(
        self,
        subject: str,
        level: Level,
        what: str,
        fix: str | None = None,
        where: str | None = None,
    ) -> CheckResult:
        """Return a finding of this area."""
        return CheckResult(part=self, subject=subject, level=level, what=what, fix=fix, where=where)


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """One thing that was checked.

    subject: a word for it ("torch"); what: in one line, which a traceback may follow; where: in the
    job file; fix: None if nothing is to be fixed.
    """

    part: CheckSection
    subject: str
    level: Level
    what: str
    where: str | None = None
    fix: str | None = None


@dataclass(frozen=True, kw_only=True)
class Checkup:
    """All findings, in output order; platform: where the job is to run."""

    platform: Platform
    findings: tuple[CheckResult, ...]

    @property
    def problems(self) -> tuple[CheckResult, ...]:
        """The findings that are problems."""
        return tuple(finding for finding in self.findings if finding.level is Level.PROBLEM)

    @property
    def exit_code(self) -> int:
        """0 if the job can run (or a local job, if none was named); else 2."""
        return 2 if self.problems else 0
