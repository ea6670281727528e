"""Violations: problems with a request, in our words and in AWS's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launcher.shared.training_job_types import TrainingJobRequest

#: A field of a request: ("ResourceConfig", "InstanceGroups", 0, "InstanceCount").
RequestPath = tuple[str | int, ...]

ONE_ERROR = "1 validation error detected: "
_SHOWN = 60


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One problem with a field, and its fix.

    aws_message: the service's answer to a request with this problem alone.
    is_warning: the service may accept the request despite it.
    """

    path: RequestPath
    what: str
    fix: str
    aws_message: str
    is_warning: bool = False


#: Returns the violations of a request against one platform's limits.
RequestJudge = Callable[["TrainingJobRequest"], tuple[Violation, ...]]


def constraint_message(path: RequestPath, value: object, constraint: str) -> str:
    """Return AWS's message for a value that violates a limit of the model.

    >>> constraint_message(("Tags", 0, "Key"), "", "Member must ...")
    "1 validation error detected: Value '' at 'tags.1.member.key' failed to satisfy constraint: \
Member must ..."
    """
    shown = "null" if value is None else f"'{_java(value)}'"
    where = aws_path(path)
    return f"{ONE_ERROR}Value {shown} at '{where}' failed to satisfy constraint: {constraint}"


def aws_path(path: RequestPath) -> str:
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
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}={_java(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_java, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)
