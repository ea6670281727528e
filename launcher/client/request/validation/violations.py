"""Violations: problems with a request, in our words and in AWS's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.errors import FieldPath, Problem

if TYPE_CHECKING:
    from launcher.shared import TrainingJobRequest

_ONE_ERROR = "1 validation error detected: "
_SHOWN = 60


@dataclass(frozen=True, kw_only=True)
class Violation(Problem):
    """A problem with a field of a request, which the service reports too.

    aws_message: the service's answer to a request with this problem alone.
    """

    aws_message: str


def aws_answer(violations: Iterable[Violation]) -> str:
    """Return the message of AWS's ValidationException for these errors; "" if all are warnings.

    The service first checks a request against its model and reports every violation. Only then
    does it check its own rules, of which it reports the first that is broken.
    """
    messages = [found.aws_message for found in violations if not found.is_warning]
    constraints = dict.fromkeys(
        text.removeprefix(_ONE_ERROR) for text in messages if text.startswith(_ONE_ERROR)
    )
    if len(constraints) > 1:
        return f"{len(constraints)} validation errors detected: {'; '.join(constraints)}"
    return "".join(_ONE_ERROR + text for text in constraints) or "".join(messages[:1])


#: Returns the violations of a request against one platform's limits.
RequestJudge = Callable[["TrainingJobRequest"], tuple[Violation, ...]]


def constraint_message(path: FieldPath, value: object, constraint: str) -> str:
    """Return AWS's message for a value that violates a limit of the model.

    >>> constraint_message(("Tags", 0, "Key"), "", "Member must ...")
    "1 validation error detected: Value '' at 'tags.1.member.key' failed to satisfy constraint: \
Member must ..."
    """
    shown = "null" if value is None else f"'{_java(value)}'"
    where = aws_path(path)
    return f"{_ONE_ERROR}Value {shown} at '{where}' failed to satisfy constraint: {constraint}"


def aws_path(path: FieldPath) -> str:
    """Format a field as in AWS's messages.

    >>> aws_path(("ResourceConfig", "InstanceGroups", 0, "InstanceCount"))
    'resourceConfig.instanceGroups.1.member.instanceCount'
    """
    return ".".join(
        f"{part + 1}.member" if isinstance(part, int) else part[:1].lower() + part[1:]
        for part in path
    )


def shown(value: object) -> str:
    """Return a value for a message, shortened to about 60 characters."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _java(value: object) -> str:
    """Format a value as in AWS's messages.

    >>> _java({"a": ["b", True]})
    '{a=[b, true]}'
    """
    if isinstance(value, str):  # most values are
        return value
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}={_java(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_java, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)
