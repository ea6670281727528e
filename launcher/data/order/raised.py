"""Texts of exceptions from user code, which may be of any length or raise themselves."""

from __future__ import annotations

import traceback
from collections.abc import Callable

#: Characters kept of one exception or traceback: its beginning and its end.
_BEGINNING, _END = 24_000, 8_000


def text_of(error: BaseException) -> str:
    """Return an exception's message."""
    return _words(lambda: str(error), error)


def name_of(error: BaseException) -> str:
    """Return an exception with its type, as repr gives it."""
    return _words(lambda: repr(error), error)


def latest_traceback() -> str:
    """Return the traceback of the exception that is being handled."""
    return _shortened(traceback.format_exc())


def _words(ask: Callable[[], str], error: BaseException) -> str:
    try:
        return _shortened(ask())
    except Exception as failure:  # noqa: BLE001 - the user's code may raise anything
        return f"{type(error).__name__}, whose own text raised {type(failure).__name__}"


def _shortened(text: str) -> str:
    left_out = len(text) - _BEGINNING - _END
    if left_out <= 0:
        return text
    return f"{text[:_BEGINNING]} ... ({left_out} characters) ... {text[-_END:]}"
