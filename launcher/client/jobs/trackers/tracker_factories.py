"""Factories of a job's trackers, and checks of what they need on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from launcher.client.jobs.trackers.base import Tracker
from launcher.client.jobs.trackers.callback_tracker import (
    CallbackTracker,
    check_callback,
    load_callback,
)
from launcher.client.jobs.trackers.mlflow_tracker import (
    DEFAULT_EXPERIMENT,
    MlflowTracker,
    refusal_of_folder,
)
from launcher.client.jobs.trackers.tensorboard_tracker import TensorBoardTracker
from launcher.client.spec import JobSpec, Tracking, is_folder
from launcher.errors import FieldPath, Problem, SpecError


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
        yield from _folder_problems(("tracking", "tensorboard"), Path(tracking.tensorboard))
    if tracking.mlflow:
        missing = [*_library_problems("mlflow", "MLflow")]
        yield from missing or _mlflow_problems(tracking.mlflow)
    if tracking.callback:
        yield from _callback_problems(tracking.callback, check_callback)


def _library_problems(package: str, name: str) -> Iterator[Problem]:
    if find_spec(package) is None:
        yield Problem(
            path=("tracking", package),
            what=f"{name} is not installed for {sys.executable}",
            fix=f"{sys.executable} -m pip install {package}, or remove tracking.{package}",
        )


def _folder_problems(path: FieldPath, folder: Path) -> Iterator[Problem]:
    existing = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        reason = "may not be written" if existing.is_dir() else "is not a folder"
        what = f"{folder} cannot be written: {existing} {reason}"
        yield Problem(path=path, what=what, fix="write the path of a folder of yours")


def _mlflow_problems(uri: str) -> Iterator[Problem]:
    """Yield why MLflow cannot write to a folder; servers and databases are not asked yet."""
    path = ("tracking", "mlflow")
    if is_folder(uri):
        yield from _folder_problems(path, Path(uri))
    reason = refusal_of_folder(uri)
    if reason:
        what, fix = f"MLflow refuses {uri}: {reason}", "write sqlite:///mlflow.db, or http://SERVER"
        yield Problem(path=path, what=what, fix=fix)


def _callback_problems(callback: str, attempt: Callable[[str], object]) -> Iterator[Problem]:
    try:
        attempt(callback)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the user's module may raise anything
        yield Problem(
            path=("tracking", "callback"),
            what=f"{callback} cannot be loaded: {type(error).__name__}: {error}",
            fix="name a function of a module that this Python can import, or of a file",
        )
