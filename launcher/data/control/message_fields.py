"""Fields of messages: their types, checked by annotation, and the parts of a worker's name."""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Check = Callable[[Any], bool]

#: Annotations that require exactly this type.
_PLAIN = frozenset({str, int, bool})


def misfit(kind: type, values: Mapping[str, object]) -> str | None:
    """Return the name of a value that does not match its field's annotation, or None."""
    checks = _checks(kind)
    for name, value in values.items():
        if not checks[name](value):
            return name
    return None


@functools.cache
def _checks(kind: type) -> dict[str, Check]:
    return {name: _check(annotation) for name, annotation in get_type_hints(kind).items()}


def _check(annotation: object) -> Check:
    """Build the test for an annotation; this runs once for each field of each message type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return lambda value: True
    if annotation is float:
        return lambda value: type(value) in (float, int) and -math.inf < value < math.inf
    if origin is Literal:
        return lambda value: type(value) is str and value in arguments
    if origin in (Union, types.UnionType):
        checks = [_check(argument) for argument in arguments]
        return lambda value: any(check(value) for check in checks)
    if origin is list:
        return _check_all(list, _check(arguments[0]))
    if origin is dict:
        value_check = _check_all(list, _check(arguments[1]))
        return lambda value: type(value) is dict and value_check(list(value.values()))
    if origin is tuple:
        return _check_tuple(arguments)
    return lambda value: type(value) is annotation


def _check_all(kind: object, check: Check) -> Check:
    return lambda value: type(value) is kind and all(map(check, value))


def _check_tuple(arguments: tuple[object, ...]) -> Check:
    """Build the test for a tuple; JSON has no tuples, so lists are accepted in their place."""
    if arguments[-1] is Ellipsis:
        check = _check(arguments[0])
        return lambda value: type(value) in (list, tuple) and all(map(check, value))
    if _PLAIN.issuperset(arguments):  # avoids one call for each part
        kinds = [*arguments]
        return lambda value: type(value) in (list, tuple) and [*map(type, value)] == kinds
    checks = [_check(argument) for argument in arguments]
    return lambda value: (
        type(value) in (list, tuple)
        and len(value) == len(checks)
        and all(check(part) for check, part in zip(checks, value, strict=True))
    )


def host_of(worker: str) -> str:
    """Return the host part of a worker's name: algo-1 for algo-1/0/4711."""
    return worker.partition("/")[0]


def slot_of(worker: str) -> str:
    """Return the slot that a worker shares with its replacements: algo-1/0 for algo-1/0/4711."""
    return worker.rpartition("/")[0]
