"""One thing that is wrong with a request, as we say it and as AWS does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: A field of a request: ("ResourceConfig", "InstanceGroups", 0, "InstanceCount").
RequestPath = tuple[str | int, ...]

ONE_ERROR = "1 validation error detected: "
_SHOWN = 60


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One thing that is wrong with a field, and how to mend it.

    aws_message: what the service answers to a request with this fault alone.
    is_warning: the service may accept it all the same.
    """

    path: RequestPath
    what: str
    fix: str
    aws_message: str
    is_warning: bool = False


def constraint_message(path: RequestPath, value: Any, constraint: str) -> str:
    """AWS's words for a value that breaks a limit of the model.

    >>> constraint_message(("Tags", 0, "Key"), "", "Member must ...")
    "1 validation error detected: Value '' at 'tags.1.member.key' failed to satisfy constraint: \
Member must ..."
    """
    shown = "null" if value is None else f"'{_java(value)}'"
    where = aws_path(path)
    return f"{ONE_ERROR}Value {shown} at '{where}' failed to satisfy constraint: {constraint}"


def aws_path(path: RequestPath) -> str:
    """A field as AWS's messages write it.

    >>> aws_path(("ResourceConfig", "InstanceGroups", 0, "InstanceCount"))
    'resourceConfig.instanceGroups.1.member.instanceCount'
    """
    return ".".join(
        f"{part + 1}.member" if isinstance(part, int) else part[:1].lower() + part[1:]
        for part in path
    )


def shown(value: Any) -> str:
    """A value for a message, not longer than a line takes."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _java(value: Any) -> str:
    """A value as AWS's messages write it.

    >>> _java({"a": ["b", True]})
    '{a=[b, true]}'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}={_java(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_java, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)
