"""The diagnosis of a job: what limits its step, how sure that is, and what to change."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from launcher.client.jobs import Job
from launcher.client.planning.diagnosis.advice import Advice, advise
from launcher.client.planning.diagnosis.evidence_reading import read_evidence
from launcher.client.planning.diagnosis.findings import Confidence, Finding, StepLimit, find_limit
from launcher.client.planning.diagnosis.job_evidence import JobEvidence
from launcher.client.sessions import session_of


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The cause that limits the steps of a job, its evidence, and the changes that would help.

    advice: the first change first.
    """

    evidence: JobEvidence
    finding: Finding
    advice: tuple[Advice, ...]

    @property
    def job_name(self) -> str:
        """The name of the job."""
        return self.evidence.job_name

    @property
    def limit(self) -> StepLimit:
        """The cause, such as StepLimit.INPUT; NOT_SURE without evidence of one."""
        return self.finding.limit

    @property
    def confidence(self) -> Confidence:
        """The strength of the evidence."""
        return self.finding.confidence

    @property
    def culprit(self) -> str | None:
        """The slow host or rank of an imbalanced job; None without one."""
        return self.finding.culprit

    def __str__(self) -> str:
        from launcher.client.planning.diagnosis.diagnosis_text import diagnosis_text

        return diagnosis_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from launcher.client.planning.diagnosis.diagnosis_text import diagnosis_html

        return diagnosis_html(self)

    def to_plain(self) -> dict[str, Any]:
        """Return plain values, as `launcher diagnose --json` prints them."""
        evidence = asdict(replace(self.evidence, measured={}))
        del evidence["measured"]
        evidence["read_on"] = self.evidence.read_on.isoformat()
        if self.evidence.data is not None and self.evidence.data.bound is not None:
            evidence["data"]["bound"] = self.evidence.data.bound.value
        return {
            "job": self.job_name,
            "limit": self.limit.value,
            "confidence": self.confidence.value,
            "why": self.finding.why,
            "culprit": self.culprit,
            "advice": [asdict(each) for each in self.advice],
            "evidence": evidence,
        }

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each change with the cause before it, as `-o csv` has them."""
        plain = self.to_plain()
        cause = {name: plain[name] for name in ("job", "limit", "confidence", "why", "culprit")}
        for each in plain["advice"] or [{}]:
            yield {**cause, **each}


def diagnose(job: Job | str) -> Diagnosis:
    """Say what limits the steps of a job that runs or ran, how sure that is, and what to change.

    It reads the job's logs and, on SageMaker, the use of its hosts in CloudWatch. It works for jobs
    of other SDKs too, with less evidence. Nothing is changed.

    job: a job or the name of one, which is looked for on this machine, then on SageMaker.

    Raises JobNotFound, and the platform's error if the job cannot be described.
    """
    known = Job(job, session_of(job)) if isinstance(job, str) else job
    return diagnosis_of(read_evidence(known))


def diagnosis_of(evidence: JobEvidence) -> Diagnosis:
    """Return what the evidence on a job shows."""
    finding = find_limit(evidence)
    return Diagnosis(evidence=evidence, finding=finding, advice=advise(finding, evidence))
