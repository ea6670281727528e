"""NamedTuples, dataclasses and enums: plain classes whose fields can be sent without a codec."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Sequence
from typing import Any

from launcher.errors import DataError

#: Py_TPFLAGS_HEAPTYPE of CPython: the class was made by a class statement.
_WRITTEN_IN_PYTHON = 1 << 9


def is_plain_class(kind: type) -> bool:
    """Return whether objects of a class can be created from their fields or their name."""
    return is_named_tuple(kind) or is_plain_dataclass(kind) or issubclass(kind, enum.Enum)


def is_plain_dataclass(kind: type) -> bool:
    """Return whether a class is a dataclass whose fields are all that its objects hold.

    One that derives from dict or from another class written in C is not, nor is a tensorclass.
    """
    return (
        dataclasses.is_dataclass(kind)
        and all(base.__flags__ & _WRITTEN_IN_PYTHON for base in kind.__mro__[:-1])
        and not hasattr(kind, "_is_tensorclass")
    )


def is_named_tuple(kind: type) -> bool:
    """Return whether a class is a NamedTuple or made by namedtuple."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def field_names(kind: Any) -> list[str]:
    """Return the fields of a NamedTuple or a dataclass, in order; an enum has none."""
    if is_named_tuple(kind):
        return list(kind._fields)
    return [field.name for field in dataclasses.fields(kind)]


def field_values(value: object) -> list[object]:
    """Return the values of `field_names`; raises DataError for an object that holds others."""
    kind, names = type(value), field_names(type(value))
    try:
        values = [*value] if isinstance(value, tuple) else [getattr(value, n) for n in names]
    except AttributeError as error:
        raise DataError(
            f"a batch holds a {kind.__qualname__} with an unset field: {error}"
        ) from error
    attributes = getattr(value, "__dict__", ())
    if others := [
        name
        for name in attributes
        if name not in names
        and not isinstance(getattr(kind, name, None), functools.cached_property)
    ]:
        raise DataError(
            f"a batch holds a {kind.__qualname__} with the attribute {others[0]!r}, which is no "
            f"field and would be lost: declare it, {others[0]}: TYPE = field(init=False), or "
            "register functions for the class with launcher.data.register_codec"
        )
    return values


def make_instance(kind: Any, names: Sequence[str], values: Sequence[object]) -> object:
    """Create an object from its fields; a dataclass's `__init__` is not called, as in copy."""
    if is_named_tuple(kind):
        return kind._make(values)
    made: Any = object.__new__(kind)
    for name, value in zip(names, values, strict=True):
        object.__setattr__(made, name, value)  # works for frozen classes too
    return made


def enum_content(member: enum.Enum) -> str | int:
    """Return the name of a member, or the bits of a combination of flags."""
    kind = type(member)
    if member.name is not None and member.name in kind.__members__:
        return member.name
    return int(member.value)  # only flags have members without a name of their own


def enum_member(kind: type, content: object) -> object:
    """Invert `enum_content`; raises LookupError or ValueError for anything else."""
    if not issubclass(kind, enum.Enum):
        raise ValueError(f"{kind.__name__} is no enum")
    if isinstance(content, str):
        return kind.__members__[content]
    if not issubclass(kind, enum.Flag) or type(content) is not int:
        raise ValueError(f"{content!r} is no member of {kind.__name__}")
    return kind(content)
