"""A job's diagnosis: its limit, the evidence, and changes to make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from launcher.client.catalogue import dollars_text
from launcher.client.jobs import Job
from launcher.client.planning.diagnosis.advice import Advice, Effect, advise
from launcher.client.planning.diagnosis.evidence_reading import read_evidence
from launcher.client.planning.diagnosis.job_evidence import JobEvidence
from launcher.client.planning.plans.step_model import Interval
from launcher.client.sessions import session_of
from launcher.client.show import Note, labelled, note_lines, notes_html, readable
from launcher.shared import Confidence, Finding, GroupUse, StepLimit, judge


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

    @property
    def change(self) -> str | None:
        """The change to try first, with what is predicted for it where that is known."""
        data = self.evidence.data
        changes = [each for each in self.advice if data is None or each.what != data.text]
        first = next((each for each in changes if each.effect), next(iter(changes), None))
        return advice_text(first) if first else None

    def __str__(self) -> str:
        return "\n".join(note_lines(_notes(self), _NOTE_COLUMN))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return notes_html(_notes(self))

    def to_plain(self) -> dict[str, Any]:
        """Return plain values, as `launcher diagnose --json` prints them."""
        evidence = asdict(replace(self.evidence, measured={}))
        del evidence["measured"]
        evidence["read_on"] = self.evidence.read_on.isoformat()
        if self.evidence.data is not None and self.evidence.data.bound is not None:
            evidence["data"]["bound"] = self.evidence.data.bound.value
            evidence["data"]["kind"] = self.evidence.data.kind and self.evidence.data.kind.value
        return {
            "job": self.job_name,
            "limit": self.limit.value,
            "cause": self.finding.cause.value,
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
    finding = judge(evidence)
    return Diagnosis(evidence=evidence, finding=finding, advice=advise(finding, evidence))


_NOTE_COLUMN = 11
#: Changes of a step's time in its second half that are smaller than this are not named.
_DRIFT = 0.1
#: Changes smaller than this are not named.
_SAME = 0.005


def _notes(diagnosis: Diagnosis) -> Iterator[Note]:
    evidence, finding = diagnosis.evidence, diagnosis.finding
    yield "Job", f"{evidence.job_name} ({evidence.status})"
    named = f" ({finding.culprit})" if finding.culprit else ""
    sure = (
        "" if finding.confidence is Confidence.NONE else f", confidence {finding.confidence.value}"
    )
    yield "Diagnosis", f"{finding.limit.value}{named}{sure}"
    yield "", finding.why
    yield from labelled("Evidence", _evidence(evidence))
    yield from labelled("Unknown", evidence.missing)
    advice = enumerate(map(advice_text, diagnosis.advice), start=1)
    yield from labelled("Advice", (f"{number}. {text}" for number, text in advice))


def _evidence(evidence: JobEvidence) -> Iterator[str]:
    for group in evidence.groups:
        yield _group_text(group)
    if evidence.data is not None:
        data = evidence.data
        time = f"{readable(data.seconds)}, in {data.basis}"
        yield f"data: waited for {data.share:.1%} of {time}"
    if evidence.step is not None:
        half = evidence.step.half_width
        around = "" if half is None else f" +- {half * 1e3:.2g}"
        drift = evidence.step.drift
        later = "" if drift is None or abs(drift) < _DRIFT else f", {drift:+.0%} in the second half"
        yield f"step: {evidence.step.mean * 1e3:,.4g}{around} ms{later}"
    if evidence.passes:
        longest = max(evidence.passes, key=lambda each: each.steps)
        parts = (f"{name} {_ms(longest.quantiles[name])}" for name in ("p50", "p95", "p99", "max"))
        yield f"each of {longest.steps} steps: {', '.join(parts)}"
    for each in evidence.ranks:
        waits = "" if each.communication is None else f", other ranks {_ms(each.communication)}"
        yield (
            f"rank {each.rank} on {each.host}: data {_ms(each.data_wait)}, computing "
            f"{_ms(each.compute)}{waits} ({each.steps} steps)"
        )
    if evidence.sources:
        yield f"read from {' and '.join(evidence.sources)}"


def _group_text(group: GroupUse) -> str:
    kind = "trains" if group.trains else "beside the training"
    hosts = f"{group.name} ({kind}): {group.count} x {group.instance_type}"
    if not group.hosts:
        return f"{hosts}, no figures of its training"
    cpu = "unknown" if group.cpu is None else f"{group.cpu:.0%}"
    gpu = "" if group.gpu is None else f", accelerators {group.gpu:.0%}"
    span = (
        f"{group.points} values of each host" if len(group.hosts) > 1 else f"{group.points} values"
    )
    return f"{hosts}, CPU {cpu}{gpu} busy ({span} in {readable(group.seconds)})"


def advice_text(advice: Advice) -> str:
    """Return a change and what it costs and saves."""
    return advice.what if advice.effect is None else f"{advice.what}; {_effect(advice.effect)}"


def _effect(effect: Effect) -> str:
    return (
        f"{dollars_text(effect.per_hour_now)} to {dollars_text(effect.per_hour)} an hour, a step "
        f"takes {_change(effect.step)} time and costs {_change(effect.price)} "
        f"(predicted, by {'; '.join(effect.prices)})"
    )


def _change(change: Interval) -> str:
    """Return a change with its range, such as "46% less (40% to 55% less)"."""
    if abs(change.expected) < _SAME:
        return "the same"
    text = _percent(change.expected)
    if change.high - change.low < _SAME:
        return text
    return f"{text} ({_percent(change.high)} to {_percent(change.low)})"


def _percent(change: float) -> str:
    return f"{abs(change):.0%} {'more' if change > 0 else 'less'}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.3g} ms"
