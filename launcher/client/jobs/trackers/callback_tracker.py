"""A function of the user's as a tracker."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType

from launcher.client.jobs.metric_records import MetricRecord
from launcher.client.spec import defined_names

#: Bytes of a file up to which its names are looked at.
_MAX_PARSED = 1 << 20

Callback = Callable[[str, MetricRecord], object]


class CallbackTracker:
    """Calls a function with the job's name and each value."""

    def __init__(self, function: Callback, job_name: str) -> None:
        self._function = function
        self._job_name = job_name

    def log(self, records: Sequence[MetricRecord]) -> None:
        """Call the function."""
        for record in records:
            self._function(self._job_name, record)

    def close(self, status: str | None) -> None:
        """Do nothing: a function has no end."""


def load_callback(name: str) -> Callback:
    """Return the function "module:function" or "file.py:function"; a file is loaded once.

    Raises whatever the import does, AttributeError if it has no such name, and TypeError if that is
    not a function.
    """
    home, _, function = name.rpartition(":")
    module = _load_file(Path(home)) if home.endswith(".py") else importlib.import_module(home)
    found = getattr(module, function)
    if not callable(found):
        raise TypeError(f"{function} of {home} is not a function")
    callback: Callback = found
    return callback


def _load_file(path: Path) -> ModuleType:
    name = f"launcher_callback:{path.absolute()}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} cannot be imported")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses in the file look their module up there
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]


def check_callback(name: str) -> None:
    """Raise what `load_callback` would, as far as that can be seen without running any code."""
    home, _, function = name.rpartition(":")
    path = Path(home) if home.endswith(".py") else _source_of(home)
    if path is None:
        return
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if path.stat().st_size > _MAX_PARSED:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as of invalid escapes in its texts
        tree = ast.parse(path.read_bytes(), str(path))
    if not set(defined_names(tree)) & {function, "*"}:
        raise AttributeError(f"{home} has no {function}")


def _source_of(module: str) -> Path | None:
    """Return the source file of a module, None if it has none or that is not known.

    Does not import the packages that it is in, as `find_spec` does. Raises ModuleNotFoundError.
    """
    known, *parts = module.split(".")
    spec = importlib.util.find_spec(known)
    for part in parts:
        if spec is not None and spec.submodule_search_locations is None:
            return None  # no package, which may have made a module of that name, as os has os.path
        known = f"{known}.{part}"
        spec = spec and PathFinder.find_spec(known, list(spec.submodule_search_locations or ()))
    if spec is None:
        raise ModuleNotFoundError(f"No module named {module!r}")
    return Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
