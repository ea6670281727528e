"""Errors of user code that keep their type: `except KeyError` works, wherever the dataset is read.

Such an error is of two classes: ours, and the one that user code raised. In the process that raised
it, the latter is the class itself. To another process a host sends the names of it and its bases;
that process takes the first that it knows, without an import: a built-in one, or one of the user's
own modules that are loaded.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from launcher.data.batches import find_class, reference_to
from launcher.errors import DataError, LauncherError

_E = TypeVar("_E", bound=DataError)
#: Errors that end a loop or a generator when they are raised in it.
_CONTROL = (StopIteration, StopAsyncIteration)


def type_names(error: BaseException) -> tuple[str, ...]:
    """Return the names of an error's class and its bases, as far as they say more than Exception.

    >>> type_names(KeyError("a"))
    ('builtins:KeyError', 'builtins:LookupError')
    """
    if isinstance(error, (LauncherError, *_CONTROL)) or not isinstance(error, Exception):
        return ()
    return tuple(
        reference_to(kind)
        for kind in type(error).__mro__
        if issubclass(kind, Exception) and kind is not Exception
    )


def with_type_of(error: _E, original: BaseException) -> _E:
    """Return an error that is also of the class of one that user code raised in this process.

    It has the attributes of both.
    """
    names = type_names(original)
    kinds = [type(original)] if names and isinstance(original, Exception) else []
    return _with_first(error, names, kinds, vars(original))


def with_original_type(error: _E, names: Sequence[str]) -> _E:
    """Return an error that is also of the first of the named classes that this process knows.

    The error itself if there is none, or if objects of the class cannot be made without arguments.
    """
    return _with_first(error, names, [], {})


def _with_first(
    error: _E,
    names: Sequence[str],
    kinds: Sequence[type[Exception]],
    attributes: Mapping[str, object],
) -> _E:
    """Return an error that is also of the first class that can be combined with its own.

    kinds: classes to try before those that the names select.
    """
    error.type_names = tuple(names)
    for kind in (*kinds, *filter(None, map(_find, names))):
        try:
            combined = _combined(type(error), kind)
            made: Any = combined.__new__(combined)
        except Exception:  # noqa: BLE001 - the user's class decides how it is made
            continue
        made.args = error.args
        vars(made).update({**attributes, **vars(error)})
        found: _E = made
        return found
    return error


def _find(name: str) -> type[Exception] | None:
    module, _, path = name.partition(":")
    kind = vars(builtins).get(path) if module == "builtins" else find_class(name)
    if not isinstance(kind, type) or not issubclass(kind, Exception):
        return None
    return None if issubclass(kind, (LauncherError, *_CONTROL)) else kind


def _combined(ours: type[DataError], original: type[Exception]) -> type[DataError]:
    """Return a class of both, whose text is ours."""
    content = {"__str__": Exception.__str__, "__module__": ours.__module__}
    return type(f"{ours.__name__}_{original.__name__}", (ours, original), content)
