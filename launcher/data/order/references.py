"""References to functions in user code, such as "pipeline:train_set", which resolve on any host."""

from __future__ import annotations

import importlib
from typing import Any

from launcher.data.order.raised import latest_traceback, name_of
from launcher.errors import DataError


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
            f"the {what} {reference} could not be imported: {name_of(error)}\n{latest_traceback()}"
        ) from error
