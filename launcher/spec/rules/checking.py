"""Evaluation of all the rules on a job."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from launcher.errors import Problem, SpecError
from launcher.spec.findings import Finding, Where
from launcher.spec.job import JobSpec
from launcher.spec.reading import Reading, read_spec, shown, written_fields
from launcher.spec.rules import (
    channels,
    commands,
    distributions,
    image,
    interruption,
    limits,
    machines,
    mounts,
    observation,
    parallel,
    partition,
    resources,
    serving,
    source,
)
from launcher.spec.rules.source import Source
from launcher.spec.writing import plain_values

#: The rules that need only the specification.
_RULES = (
    machines.find_problems,
    resources.find_problems,
    image.find_problems,
    commands.find_problems,
    distributions.find_problems,
    parallel.find_problems,
    partition.find_problems,
    source.find_problems_of_names,
    channels.find_problems,
    mounts.find_problems,
    observation.find_problems,
    limits.find_problems,
    serving.find_problems,
    interruption.find_problems,
)


def check(spec: JobSpec, files: Source, where: Where | None = None) -> tuple[str, ...]:
    """Check a job against every rule and return the warnings.

    files: the files sent with the job. where: formats a field's location; default: `spec.where`.

    Raises SpecError with every problem.
    """
    where = where or spec.where
    readable, judged = _judge(spec)
    findings = [*judged, *partition.find_problems_in(readable, files, known=judged)]
    problems: Sequence[Problem] = ()
    try:
        findings += source.find_problems_in(readable, files, known=judged)
        findings += commands.find_problems_in(readable, files, known=judged)
    except SpecError as error:  # the files themselves cannot be packed
        problems = error.problems
    problems = [*(f.problem(where) for f in findings if not f.is_warning), *problems]
    if problems:
        raise SpecError(problems)
    return tuple(f"{f.what} ({where(f.path)}): {f.fix}" for f in findings)


def examine(spec: JobSpec) -> tuple[Finding, ...]:
    """Return all errors and warnings that follow from the specification alone."""
    return _judge(spec)[1]


def _judge(spec: JobSpec) -> tuple[JobSpec, tuple[Finding, ...]]:
    """Return the readable part of the job and its findings.

    The values are first read again by their declared types, so that a job built in Python gets
    the same checks as a document.
    """
    reading = Reading()
    readable = read_spec(plain_values(spec), reading)
    _reject_other_classes(spec, readable, reading)
    judged = (finding for rule in _RULES for finding in rule(readable))
    findings = (*reading.findings, *(f for f in judged if not f.rests_on(reading.broken)))
    return readable, tuple(sorted(findings, key=_place_among_fields))


def _reject_other_classes(spec: JobSpec, readable: JobSpec, reading: Reading) -> None:
    """Reject a dictionary where a class is declared; only documents may contain one there."""
    for part in written_fields(JobSpec):
        is_read = not any(path[:1] == (part.name,) for path in reading.broken)
        if is_read and getattr(spec, part.name) != getattr(readable, part.name):
            what = f"{part.name} is not of its declared type: {shown(getattr(spec, part.name))}"
            fix = f"write {shown(getattr(readable, part.name))}"
            reading.reject((part.name,), what, fix)


def _place_among_fields(finding: Finding) -> int:
    fields = [part.name for part in dataclasses.fields(JobSpec)]
    return fields.index(str(finding.path[0])) if finding.path else -1
