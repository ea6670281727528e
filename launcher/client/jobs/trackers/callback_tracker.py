"""A function of the user's as a tracker."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from launcher.client.jobs.metric_records import MetricRecord

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
        spec.loader.exec_module(module)
        sys.modules[name] = module
    return sys.modules[name]
