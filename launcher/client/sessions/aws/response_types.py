"""Compare the values of a JSON response with the types of the service's model in botocore."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeGuard

#: Seconds since the epoch of the years 1 and 9999, which datetime has.
_FIRST, _LAST = -62_135_596_800.0, 253_402_300_799.0


def type_problem(shape: Any, value: object) -> str | None:
    """Return the first value of another type than its shape has, for a sentence; None without one.

    null is an absent member, as in botocore, but no element of a list or a map.
    """
    return next(_problems(shape, value, ""), None)


def _problems(shape: Any, value: object, path: str) -> Iterator[str]:
    kind = shape.type_name
    if kind == "structure" and isinstance(value, dict):
        for name, member in shape.members.items():
            key = member.serialization.get("name", name)
            if value.get(key) is not None:
                yield from _problems(member, value[key], f"{path}.{key}".lstrip("."))
    elif kind == "list" and isinstance(value, list):
        for number, element in enumerate(value):
            yield from _problems(shape.member, element, f"{path}[{number}]")
    elif kind == "map" and isinstance(value, dict):
        for key, element in value.items():
            yield from _problems(shape.value, element, f"{path}[{key!r}]")
    elif kind in _CONTAINERS or not _IS_OF[kind](value):
        yield f"{_shown(value)} as {path or 'the whole'}, which is a {kind}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer of more than 308 digits
        return False


def _is_integer(value: object) -> bool:
    return _is_number(value) and abs(value) < 1 << 63 and value == int(value)


def _is_time(value: object) -> bool:
    """Return True for seconds since the epoch, or a date as botocore reads them."""
    if not isinstance(value, str):
        return _is_number(value) and _FIRST <= value <= _LAST
    from botocore.utils import parse_timestamp

    try:
        return bool(parse_timestamp(value))
    except (ArithmeticError, RuntimeError, TypeError, ValueError):
        return False


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_CONTAINERS = frozenset({"structure", "list", "map"})
_IS_OF: Mapping[str, Callable[[object], bool]] = {
    "string": _is_text,
    "blob": _is_text,
    "character": _is_text,
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "long": _is_integer,
    "float": _is_number,
    "double": _is_number,
    "timestamp": _is_time,
}
