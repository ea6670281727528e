"""The arguments with which an instance was made, as far as its attributes show them."""

from __future__ import annotations

import hashlib
import inspect
from pathlib import PurePath

from launcher.data.order import ChannelPath, channel_of, wrong_values

#: Characters of one argument; longer ones are data rather than settings.
_VALUE_LIMIT = 100
_UNKNOWN = "..."
_SCALARS = (bool, int, float, str, type(None))


def describe_instance(instance: object) -> str:
    """Return text that differs where instances of one class differ in arguments or length.

    >>> describe_instance([1, 2, 3])
    'len=3'
    """
    values = _constructor_values(instance) or {}
    described = {name: _described(value) for name, value in values.items()}
    if isinstance(length := _length(instance), int):
        described["len"] = str(length)
    return _written(described)


def _written(arguments: dict[str, str]) -> str:
    return ", ".join(f"{name}={code}" for name, code in arguments.items())


def _constructor_values(instance: object) -> dict[str, object] | None:
    """Return the arguments that are not the default, by name, from the attributes of that name."""
    if (parameters := _parameters(type(instance))) is None:
        return None
    found, attributes = {}, getattr(instance, "__dict__", {})
    for parameter in parameters:
        name = parameter.name
        if parameter.kind is parameter.VAR_POSITIONAL:
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            return None
        value = attributes.get(name, attributes.get(f"_{name}", parameter.empty))
        if parameter.default is not parameter.empty and _is_same(value, parameter.default):
            continue
        found[name] = value
    return found


def _parameters(kind: type) -> list[inspect.Parameter] | None:
    """Return the parameters of a class; **kwargs stand for the next constructor's above it."""
    try:
        own = list(inspect.signature(kind).parameters.values())
    except (TypeError, ValueError):  # some classes of C modules have none
        return None
    named = {each.name: each for each in own if each.kind is not each.VAR_KEYWORD}
    above = [base for base in kind.__mro__[1:] if "__init__" in vars(base)]
    if len(named) < len(own) and "__init__" in vars(kind) and above and above[0] is not object:
        for each in _parameters(above[0]) or ():
            if each.kind is not each.VAR_POSITIONAL:
                named.setdefault(each.name, each)
    return list(named.values())


def _is_same(value: object, default: object) -> bool:
    if value is default or type(value) is not type(default):
        return value is default
    if isinstance(value, list | tuple | dict | set) and len(value) != len(default):  # type: ignore[arg-type] # of the same type
        return False  # values may be large: a list of images
    return repr(value) == repr(default)


def _code(value: object) -> str:
    if isinstance(value, PurePath):
        value = str(value)
    place = channel_of(value) if isinstance(value, str) else value
    if isinstance(place, ChannelPath):
        return f"launcher.data.{place!r}"
    if value is inspect.Parameter.empty or wrong_values(value):
        return _UNKNOWN
    return code if len(code := repr(value)) <= _VALUE_LIMIT else _UNKNOWN


def _described(value: object) -> str:
    """Return the code of a value; of long text and of many numbers, a digest of both ends.

    Containers of other objects may be large, and are left out.
    """
    if not isinstance(value, str | list | tuple):
        return _UNKNOWN if isinstance(value, dict) else _code(value)
    ends = (value[:_VALUE_LIMIT], value[-_VALUE_LIMIT:])
    if not all(isinstance(each, _SCALARS) for end in ends for each in end):
        return _UNKNOWN
    if len(value) <= _VALUE_LIMIT:
        return _code(value)
    return f"...{hashlib.blake2b(repr((len(value), ends)).encode(), digest_size=4).hexdigest()}"


def _length(instance: object) -> object:
    try:
        return len(instance)  # type: ignore[arg-type] # it may have none
    except Exception:  # noqa: BLE001 - the user's code may raise anything
        return None
