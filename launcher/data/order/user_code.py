"""User code: references such as "pipeline:train_set", which any host resolves, and its exceptions.

An exception of user code may have a text of any length, or raise when it is asked for its text.
"""

from __future__ import annotations

import functools
import importlib
import sys
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

from launcher.data.batches import running_script, script_module
from launcher.data.repeatable import EntropyStream, run_repeatably, sample_seed
from launcher.errors import DataError
from launcher.shared import did_you_mean

#: Characters kept of one exception or traceback: its beginning and its end.
_BEGINNING, _END = 24_000, 8_000


def split(reference: str, what: str) -> tuple[str, str]:
    """Return (module, function) of a reference; raises DataError for an invalid one.

    A class within another one is a function, too: ("pipeline", "Digits.Small").
    """
    module, _, function = reference.partition(":")
    if not module or not function:
        raise DataError(
            f"{reference!r} is not a {what} reference; write 'module:function', the name of a "
            f"module beside your script and of a function in it"
        )
    return module, function


def resolve(reference: str, what: str) -> Any:
    """Return the function that a reference names.

    The running script is not imported once more. Raises DataError with the traceback when the
    module cannot be imported.
    """
    module, function = split(reference, what)
    try:
        home: object = sys.modules.get(module) or (
            running_script() if module == script_module() else _imported(module)
        )
        return functools.reduce(_attribute, function.split("."), home)
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise DataError(
            f"the {what} {reference} could not be imported: {error_repr(error)}"
            f"{_fix(module, function, error)}\n{latest_traceback()}"
        ) from error


def _imported(module: str) -> ModuleType:
    """Import a module; what it draws is the same in every process, as when a dataset is built."""
    seed = sample_seed(0, 0, 0, purpose=b"import")
    return run_repeatably(lambda: importlib.import_module(module), seed, stream=EntropyStream())


def _fix(module: str, function: str, error: BaseException) -> str:
    """Return the fix for a module or a function that does not exist; "" for other errors."""
    if isinstance(error, ModuleNotFoundError) and error.name == module:
        return (
            f"; write {module.replace('.', '/')}.py beside the script, or correct the module's name"
        )
    home = sys.modules.get(module)
    if home is None or not isinstance(error, AttributeError) or hasattr(home, function):
        return ""
    near = did_you_mean(function, vars(home))
    return f'; did you mean "{module}:{near}"?' if near else f"; define it in {module}"


def _attribute(home: object, name: str) -> object:
    """Return a name of a module or a class; other objects are not entered."""
    if not isinstance(home, ModuleType | type):
        raise AttributeError(f"{home!r} is neither a module nor a class, so it has no {name!r}")
    found = getattr(home, name)
    if isinstance(found, ModuleType):
        raise AttributeError(f"{name!r} is a module")
    return found


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
