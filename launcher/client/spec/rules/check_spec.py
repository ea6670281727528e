"""Evaluation of all the rules on a job."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from launcher.client.spec.rules import (
    channel_rules,
    data_service_rules,
    group_rules,
    machine_rules,
    platform_rules,
    script_rules,
    source_rules,
    value_rules,
)
from launcher.client.spec.rules.source_rules import SourceFiles
from launcher.client.spec.yaml_values import YamlReading, plain_values, read_spec, written_fields
from launcher.errors import Problem, SpecError, Where, dotted
from launcher.shared import shown

if TYPE_CHECKING:
    from launcher.client.spec.job_spec import JobSpec


def _distribution_problems(spec: JobSpec) -> Iterator[Problem]:
    """Find the problems that the job's distribution has with the job."""
    if spec.distribution is not None:
        yield from spec.distribution.problems(spec)


def _problems_in_distribution(
    spec: JobSpec, files: SourceFiles, known: Sequence[Problem]
) -> Iterator[Problem]:
    """Find problems with the distribution's files, skipping fields `known` to be wrong."""
    if spec.distribution is not None:
        wrong = {problem.path for problem in known if not problem.is_warning}
        yield from spec.distribution.problems_in(spec, files, wrong)


#: The rules that need only the specification.
_RULES = (
    machine_rules.find_problems,
    machine_rules.capacity_problems,
    platform_rules.image_problems,
    group_rules.find_problems,
    group_rules.requirement_problems,
    machine_rules.script_group_problems,
    _distribution_problems,
    source_rules.find_problems_of_names,
    channel_rules.find_problems,
    value_rules.debugger_problems,
    value_rules.tracking_problems,
    value_rules.find_problems,
    value_rules.secret_problems,
    data_service_rules.find_problems,
    platform_rules.place_problems,
    platform_rules.interruption_problems,
    platform_rules.retry_problems,
)


#: Finds what the platform's limits refuse of a job.
Limits = Callable[["JobSpec"], Iterable[Problem]]


def no_limits(spec: JobSpec) -> Iterable[Problem]:
    """Find nothing: a job that no platform is to run keeps no limits."""
    return ()


def check(
    spec: JobSpec,
    files: SourceFiles,
    where: Where | None = None,
    *,
    scheme: str = "s3",
    limits: Limits = no_limits,
) -> tuple[str, ...]:
    """Check a job against every rule and the limits, and return the warnings.

    files: the files sent with the job. where: formats a field's location; default: `spec.where`.
    scheme: of the session's URIs; the session's own limits judge them.

    Raises SpecError with every problem.
    """
    where = where or spec.where
    readable, judged = _judge(spec, limits)
    found = [*judged, *_problems_in_distribution(readable, files, judged)]
    of_files: Sequence[Problem] = ()
    try:
        found += source_rules.find_problems_in(readable, files, known=judged)
        found += script_rules.find_problems_in(readable, files, known=judged)
        found += script_rules.guard_problems_in(readable, files, known=judged)
        found += group_rules.find_problems_in(readable, files, known=judged)
        found += group_rules.requirement_problems_in(readable, files, known=judged)
    except SpecError as error:  # the files themselves cannot be packed
        of_files = error.problems
    own = _fields_with_uris_of(spec, scheme)
    found = [problem.located(where) for problem in found if dotted(problem.path) not in own]
    found += of_files
    if errors := [problem for problem in found if not problem.is_warning]:
        raise SpecError(errors)
    return tuple(problem.in_one_line for problem in found)


def _fields_with_uris_of(spec: JobSpec, scheme: str) -> set[str]:
    """Return the fields whose URI has the scheme of a session that is neither AWS nor this one."""
    if scheme in ("s3", "file"):
        return set()
    return {field for field, uri in spec.uris.items() if uri.startswith(f"{scheme}://")}


def refuse_wrong_types(spec: JobSpec, limits: Limits = no_limits) -> None:
    """Raise SpecError with all problems of a job if a value has not its field's type."""
    if _read_again(spec)[0].problems:
        found = (problem.located(spec.where) for problem in examine(spec, limits))
        raise SpecError(problem for problem in found if not problem.is_warning)


def examine(spec: JobSpec, limits: Limits = no_limits) -> tuple[Problem, ...]:
    """Return all errors and warnings that follow from the specification alone."""
    return _judge(spec, limits)[1]


def _judge(spec: JobSpec, limits: Limits) -> tuple[JobSpec, tuple[Problem, ...]]:
    """Return the readable part of the job and its problems.

    A rule's word about a field takes the place of the field's own limits.
    """
    reading, readable = _read_again(spec)
    judged = [problem for rule in _RULES for problem in rule(readable)]
    known = {problem.path for problem in judged}
    judged += (each for each in limits(readable) if each.about or each.path not in known)
    problems = (*reading.problems, *(p for p in judged if not p.depends_on(reading.broken)))
    fields = [part.name for part in dataclasses.fields(spec)]
    return readable, tuple(sorted(problems, key=lambda p: _place_among(fields, p)))


def _read_again(spec: JobSpec) -> tuple[YamlReading, JobSpec]:
    """Read the job's values by their declared types, and return the readable part.

    A job built in Python gets the same checks as a document.
    """
    reading = YamlReading()
    readable = read_spec(type(spec), plain_values(spec), reading)
    _reject_other_classes(spec, readable, reading)
    return reading, readable


def _reject_other_classes(spec: JobSpec, readable: JobSpec, reading: YamlReading) -> None:
    """Reject a dictionary where a class is declared; only documents may contain one there."""
    for part in written_fields(spec):
        is_read = not any(path[:1] == (part.name,) for path in reading.broken)
        if is_read and getattr(spec, part.name) != getattr(readable, part.name):
            what = f"{part.name} is not of its declared type: {shown(getattr(spec, part.name))}"
            fix = f"write {shown(getattr(readable, part.name))}"
            reading.reject((part.name,), what, fix)


def _place_among(fields: list[str], problem: Problem) -> int:
    return fields.index(str(problem.path[0])) if problem.path else -1
