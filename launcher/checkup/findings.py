"""What was found, one thing at a time."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Level(str, enum.Enum):
    """How bad it is: WARNING may be in the way of some job, PROBLEM is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Part(str, enum.Enum):
    """What a finding is about."""

    MACHINE = "machine"
    JOB = "job"
    AWS = "aws"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that was looked at.

    subject: a word for it ("torch"); where: in the job file; fix: None where nothing is to mend.
    """

    part: Part
    subject: str
    level: Level
    what: str
    where: str | None = None
    fix: str | None = None


@dataclass(frozen=True, kw_only=True)
class Checkup:
    """All that was found, in the order in which it is told."""

    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.level is Level.PROBLEM)

    @property
    def exit_code(self) -> int:
        """0 when the job can run, or a local one where none was named; 2 when not."""
        return 2 if self.problems else 0
