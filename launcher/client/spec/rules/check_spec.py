"""Evaluation of all the rules on a job."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from launcher.client.spec.job_spec import JobSpec
from launcher.client.spec.rules import (
    channel_rules,
    command_rules,
    data_service_rules,
    image_rules,
    interruption_rules,
    limit_rules,
    machine_rules,
    mount_rules,
    observation_rules,
    resource_rules,
    source_rules,
)
from launcher.client.spec.rules.source_rules import SourceFiles
from launcher.client.spec.spec_findings import SpecFinding, Where, shown
from launcher.client.spec.yaml_reader import YamlReading, read_spec, written_fields
from launcher.client.spec.yaml_writer import plain_values
from launcher.errors import Problem, SpecError


def _distribution_problems(spec: JobSpec) -> Iterator[SpecFinding]:
    """Find what the job's distribution has to say about the job."""
    if spec.distribution is not None:
        yield from spec.distribution.problems(spec)


def _problems_in_distribution(
    spec: JobSpec, files: SourceFiles, known: Sequence[SpecFinding]
) -> Iterator[SpecFinding]:
    """Find problems with the distribution's files, skipping fields `known` to be wrong."""
    if spec.distribution is not None:
        wrong = {finding.path for finding in known if not finding.is_warning}
        yield from spec.distribution.problems_in(spec, files, wrong)


#: The rules that need only the specification.
_RULES = (
    machine_rules.find_problems,
    resource_rules.find_problems,
    image_rules.find_problems,
    command_rules.find_problems,
    _distribution_problems,
    source_rules.find_problems_of_names,
    channel_rules.find_problems,
    mount_rules.find_problems,
    observation_rules.find_problems,
    limit_rules.find_problems,
    data_service_rules.find_problems,
    interruption_rules.find_problems,
)


def check(spec: JobSpec, files: SourceFiles, where: Where | None = None) -> tuple[str, ...]:
    """Check a job against every rule and return the warnings.

    files: the files sent with the job. where: formats a field's location; default: `spec.where`.

    Raises SpecError with every problem.
    """
    where = where or spec.where
    readable, judged = _judge(spec)
    findings = [*judged, *_problems_in_distribution(readable, files, judged)]
    problems: Sequence[Problem] = ()
    try:
        findings += source_rules.find_problems_in(readable, files, known=judged)
        findings += command_rules.find_problems_in(readable, files, known=judged)
    except SpecError as error:  # the files themselves cannot be packed
        problems = error.problems
    problems = [*(f.problem(where) for f in findings if not f.is_warning), *problems]
    if problems:
        raise SpecError(problems)
    return tuple(f"{f.what} ({where(f.path)}): {f.fix}" for f in findings)


def examine(spec: JobSpec) -> tuple[SpecFinding, ...]:
    """Return all errors and warnings that follow from the specification alone."""
    return _judge(spec)[1]


def _judge(spec: JobSpec) -> tuple[JobSpec, tuple[SpecFinding, ...]]:
    """Return the readable part of the job and its findings.

    The values are first read again by their declared types, so that a job built in Python gets
    the same checks as a document.
    """
    reading = YamlReading()
    readable = read_spec(plain_values(spec), reading)
    _reject_other_classes(spec, readable, reading)
    judged = (finding for rule in _RULES for finding in rule(readable))
    findings = (*reading.findings, *(f for f in judged if not f.rests_on(reading.broken)))
    return readable, tuple(sorted(findings, key=_place_among_fields))


def _reject_other_classes(spec: JobSpec, readable: JobSpec, reading: YamlReading) -> None:
    """Reject a dictionary where a class is declared; only documents may contain one there."""
    for part in written_fields(JobSpec):
        is_read = not any(path[:1] == (part.name,) for path in reading.broken)
        if is_read and getattr(spec, part.name) != getattr(readable, part.name):
            what = f"{part.name} is not of its declared type: {shown(getattr(spec, part.name))}"
            fix = f"write {shown(getattr(readable, part.name))}"
            reading.reject((part.name,), what, fix)


def _place_among_fields(finding: SpecFinding) -> int:
    fields = [part.name for part in dataclasses.fields(JobSpec)]
    return fields.index(str(finding.path[0])) if finding.path else -1
