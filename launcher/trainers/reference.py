"""Resolves the function that a job names and calls it with the job's hyperparameters."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping

from launcher.errors import ParallelError
from launcher.trainers.task import Task


def make_task(reference: str, hyperparameters: Mapping[str, object]) -> Task:
    """Return the Task that "module:function" names or returns for these hyperparameters.

    The hyperparameter batch-size becomes the argument batch_size. Raises whatever the module or the
    function raises, and ParallelError if the hyperparameters or the result do not fit.
    """
    module, _, name = reference.partition(":")
    function = getattr(importlib.import_module(module), name, None)
    if isinstance(function, Task) and not hyperparameters:
        return function
    if not callable(function):
        raise ParallelError(
            f"the task is {reference!r}, but {module}.py has no function {name!r}: name the "
            "function that returns the Task"
        )
    arguments = {key.replace("-", "_"): value for key, value in hyperparameters.items()}
    _check(reference, inspect.signature(function), arguments)
    task = function(**arguments)
    if not isinstance(task, Task):
        raise ParallelError(
            f"the task {reference} returned a {type(task).__name__}, but must return a "
            "launcher.trainers.Task"
        )
    return task


def _check(reference: str, signature: inspect.Signature, arguments: Mapping[str, object]) -> None:
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise ParallelError(
            f"the task {reference}{signature} cannot take the job's hyperparameters "
            f"{dict(arguments)}: {error}"
        ) from error
