"""The rules together."""

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

#: What looks at the specification alone.
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
    """Hold a job against every rule, and return the warnings.

    files: what travels with the job. where: how to say where a field is; as the spec says it.

    Raises SpecError with every problem.
    """
    where = where or spec.where
    readable, judged = _judge(spec)
    findings = [*judged, *partition.find_problems_in(readable, files, known=judged)]
    problems: Sequence[Problem] = ()
    try:
        findings += source.find_problems_in(readable, files, known=judged)
        findings += commands.find_problems_in(readable, files, known=judged)
    except SpecError as error:  # the files themselves cannot be taken along
        problems = error.problems
    problems = [*(f.problem(where) for f in findings if not f.is_warning), *problems]
    if problems:
        raise SpecError(problems)
    return tuple(f"{f.what} ({where(f.path)}): {f.fix}" for f in findings)


def examine(spec: JobSpec) -> tuple[Finding, ...]:
    """All that the specification alone shows, errors and warnings."""
    return _judge(spec)[1]


def _judge(spec: JobSpec) -> tuple[JobSpec, tuple[Finding, ...]]:
    """The job as far as it is readable, and what is wrong with it.

    Its values are read anew by their declared types first, so that a job made in Python may have
    any mistake that a document may have.
    """
    reading = Reading()
    readable = read_spec(plain_values(spec), reading)
    _reject_other_classes(spec, readable, reading)
    judged = (finding for rule in _RULES for finding in rule(readable))
    findings = (*reading.findings, *(f for f in judged if not f.rests_on(reading.broken)))
    return readable, tuple(sorted(findings, key=_place_among_fields))


def _reject_other_classes(spec: JobSpec, readable: JobSpec, reading: Reading) -> None:
    """Only a document may write a dictionary where a class of this package is declared."""
    for part in written_fields(JobSpec):
        is_read = not any(path[:1] == (part.name,) for path in reading.broken)
        if is_read and getattr(spec, part.name) != getattr(readable, part.name):
            what = f"{part.name} is not of its declared type: {shown(getattr(spec, part.name))}"
            fix = f"write {shown(getattr(readable, part.name))}"
            reading.reject((part.name,), what, fix)


def _place_among_fields(finding: Finding) -> int:
    fields = [part.name for part in dataclasses.fields(JobSpec)]
    return fields.index(str(finding.path[0])) if finding.path else -1
