"""User code: references such as "pipeline:train_set", which any host resolves, and its exceptions.

An exception of user code may have a text of any length, or raise when it is asked for its text.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Callable
from typing import Any

from launcher.errors import DataError

#: Characters kept of one exception or traceback: its beginning and its end.
_BEGINNING, _END = 24_000, 8_000


def split(reference: str, what: str) -> tuple[str, str]:
    """Return (module, function) of a reference; raises DataError for an invalid one."""
    module, _, function = reference.partition(":")
    if not module or not function:
        raise DataError(
            f"{reference!r} is not a {what} reference; write 'module:function', the name of a "
            f"module beside your script and of a function in it"
        )
    return module, function


def resolve(reference: str, what: str) -> Any:
    """Return the function that a reference names.

    Raises DataError with the traceback when its module cannot be imported.
    """
    module, function = split(reference, what)
    try:
        return getattr(importlib.import_module(module), function)
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise DataError(
            f"the {what} {reference} could not be imported: {error_repr(error)}\n"
            f"{latest_traceback()}"
        ) from error


# Exceptions ----------------------------------------------------------------------------------


def error_text(error: BaseException) -> str:
    """Return an exception's message."""
    return _safe_text(lambda: str(error), error)


def error_repr(error: BaseException) -> str:
    """Return an exception with its type, as repr gives it."""
    return _safe_text(lambda: repr(error), error)


def latest_traceback() -> str:
    """Return the traceback of the exception that is being handled."""
    return _shortened(traceback.format_exc())


def _safe_text(convert: Callable[[], str], error: BaseException) -> str:
    try:
        return _shortened(convert())
    except Exception as failure:  # noqa: BLE001 - the user's code may raise anything
        return f"{type(error).__name__}, whose own text raised {type(failure).__name__}"


def _shortened(text: str) -> str:
    left_out = len(text) - _BEGINNING - _END
    if left_out <= 0:
        return text
    return f"{text[:_BEGINNING]} ... ({left_out} characters) ... {text[-_END:]}"
