"""A job's trackers: what opens them, what they need on this machine, and the user's callback."""

from __future__ import annotations

import ast
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from launcher.client.jobs.metric_records import MetricRecord
from launcher.client.jobs.trackers.mlflow_tracker import (
    DEFAULT_EXPERIMENT,
    MlflowTracker,
    refusal_of_folder,
)
from launcher.client.jobs.trackers.tensorboard_tracker import TensorBoardTracker
from launcher.client.spec import JobSpec, Tracking, defined_names, is_folder
from launcher.errors import Problem, SpecError

if TYPE_CHECKING:
    from launcher.client.jobs.metric_tracking import Tracker

#: Bytes of a file up to which its names are looked at.
_MAX_PARSED = 1 << 20

Callback = Callable[[str, MetricRecord], object]


def openers(
    tracking: Tracking, job_name: str, *, has_many_hosts: bool
) -> Mapping[str, Callable[[], Tracker]]:
    """Return what opens each tracker, by its name; opening may raise anything.

    has_many_hosts: the job has more than one host.
    """
    found: dict[str, Callable[[], Tracker]] = {}
    if tracking.tensorboard:
        found["tensorboard"] = partial(TensorBoardTracker, Path(tracking.tensorboard), job_name)
    if tracking.mlflow:
        experiment = tracking.mlflow_experiment or DEFAULT_EXPERIMENT
        found["mlflow"] = partial(
            MlflowTracker, tracking.mlflow, experiment, job_name, has_many_hosts=has_many_hosts
        )
    if callback := tracking.callback:
        found["callback"] = lambda: CallbackTracker(load_callback(callback), job_name)
    return found


def check_trackers(spec: JobSpec) -> None:
    """Raise SpecError for each tracker of a job that this machine cannot open.

    Runs no code of the job: a job file that is only checked may be anybody's.
    """
    if spec.tracking is not None:
        _refuse(spec, tracker_problems(spec.tracking))


def load_trackers(spec: JobSpec) -> None:
    """Import the function of a job's tracking; raises SpecError if it cannot be imported."""
    if spec.tracking is not None and spec.tracking.callback:
        _refuse(spec, _callback_problems(spec.tracking.callback, load_callback))


def _refuse(spec: JobSpec, problems: Iterator[Problem]) -> None:
    if found := [problem.located(spec.where) for problem in problems]:
        raise SpecError(found)


def tracker_problems(tracking: Tracking) -> Iterator[Problem]:
    """Yield what is missing on this machine: a library, a folder, a function."""
    if tracking.tensorboard:
        yield from _library_problems("tensorboard", "TensorBoard")
        yield from _folder_problems("tensorboard", Path(tracking.tensorboard))
    if tracking.mlflow:
        missing = [*_library_problems("mlflow", "MLflow")]
        yield from missing or _mlflow_problems(tracking.mlflow)
    if tracking.callback:
        yield from _callback_problems(tracking.callback, check_callback)


def _library_problems(package: str, name: str) -> Iterator[Problem]:
    if find_spec(package) is None:
        what = f"{name} is not installed for {sys.executable}"
        fix = f"{sys.executable} -m pip install {package}, or remove tracking.{package}"
        yield _problem(package, what, fix)


def _folder_problems(tracker: str, folder: Path) -> Iterator[Problem]:
    existing = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        reason = "may not be written" if existing.is_dir() else "is not a folder"
        what = f"{folder} cannot be written: {existing} {reason}"
        yield _problem(tracker, what, "write the path of a folder of yours")


def _mlflow_problems(uri: str) -> Iterator[Problem]:
    """Yield why MLflow cannot write to a folder; servers and databases are not asked yet."""
    if is_folder(uri):
        yield from _folder_problems("mlflow", Path(uri))
    if reason := refusal_of_folder(uri):
        fix = "write sqlite:///mlflow.db, or http://SERVER"
        yield _problem("mlflow", f"MLflow refuses {uri}: {reason}", fix)


def _callback_problems(callback: str, attempt: Callable[[str], object]) -> Iterator[Problem]:
    try:
        attempt(callback)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's module may raise anything
        what = f"{callback} cannot be loaded: {type(error).__name__}: {error}"
        fix = "name a function of a module that this Python can import, or of a file"
        yield _problem("callback", what, fix)


def _problem(tracker: str, what: str, fix: str) -> Problem:
    return Problem(path=("tracking", tracker), what=what, fix=fix)


@dataclass(frozen=True)
class CallbackTracker:
    """Calls a function with the job's name and each value."""

    function: Callback
    job_name: str

    def log(self, records: Sequence[MetricRecord]) -> None:
        """Call the function."""
        for record in records:
            self.function(self.job_name, record)

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
        spec = spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} cannot be imported")
        module = module_from_spec(spec)
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
    spec = find_spec(known)
    for part in parts:
        if spec is not None and spec.submodule_search_locations is None:
            return None  # no package, which may have made a module of that name, as os has os.path
        known = f"{known}.{part}"
        spec = spec and PathFinder.find_spec(known, list(spec.submodule_search_locations or ()))
    if spec is None:
        raise ModuleNotFoundError(f"No module named {module!r}")
    return Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
