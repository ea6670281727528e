"""Check of parsed JSON against the types that a dataclass declares."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

#: No bytes, seconds, rates or counts reach it; beyond, floats and their sums overflow.
_LARGEST = 1 << 63


def misfits(value: Any, place: str = "") -> Iterator[str]:
    """Yield the fields of a dataclass that have another type, as "modules[2].forward is '4'"."""
    for name, declared in _types(value.__class__).items():
        yield from _misfits(declared, getattr(value, name), f"{place}{name}")


@functools.cache
def _types(kind: type) -> Mapping[str, Any]:
    return typing.get_type_hints(kind)


def _misfits(declared: object, value: object, place: str) -> Iterator[str]:
    origin, arguments = typing.get_origin(declared), typing.get_args(declared)
    if origin is tuple and isinstance(value, tuple):
        for number, each in enumerate(value):
            yield from _misfits(arguments[0], each, f"{place}[{number}]")
    elif isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        for key, each in value.items():  # JSON's keys are strings
            yield from _misfits(arguments[1], each, f"{place}[{key!r}]")
    elif dataclasses.is_dataclass(declared) and type(value) is declared:
        yield from misfits(value, f"{place}.")
    elif not _fits(declared, value):
        yield f"{place} is {value!r}"


def _fits(declared: Any, value: Any) -> bool:
    if typing.get_origin(declared) in (typing.Union, types.UnionType):
        return any(_fits(each, value) for each in typing.get_args(declared))
    if declared is float:  # seconds, rates and fractions; Python's JSON parser accepts NaN
        return type(value) in (int, float) and 0 <= value < _LARGEST
    # A bool is not accepted as an int.
    return type(value) is declared and (declared is not int or abs(value) < _LARGEST)
