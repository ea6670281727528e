"""The Task that a user describes: a model, its data, its loss, and when to stop."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from launcher.errors import ParallelError

#: The model's arguments, in order or by name.
Arguments = tuple[Any, ...] | dict[str, Any]
#: The model's arguments, and the target.
Batch = tuple[Arguments, Any]
#: Takes the model's output and the target; returns a mean over samples, a scalar.
Measure = Callable[[Any, Any], torch.Tensor]


def last_is_target(batch: object) -> Batch:
    """Split a batch so that the last item is the target: (x, y) becomes ((x,), y)."""
    if not isinstance(batch, (list, tuple)):
        raise ParallelError(
            f"a batch is a {type(batch).__name__}: give the Task a split function, which returns "
            "the model's arguments and the target"
        )
    *arguments, target = batch
    return tuple(arguments), target


@dataclass(frozen=True, kw_only=True)
class Task:
    """One training, as a job's `task: "module:function"` returns it. Equal on all ranks.

    model: makes the model, on the CPU, with its random initial weights.
    train_data, validation_data: "module:function", datasets as launcher.data.DataLoader takes them.
        Training reads them in a new order each epoch and drops an incomplete last step; validation
        counts each sample once.
    loss: takes the model's output and the target; returns the mean over samples.
    weights: a folder with initial weights in Hugging Face's layout; the model is then created
        without weights, and trained ones are written in that layout.
    optimizer: takes a list of parameters.
    scheduler: takes the optimizer; stepped after each of its steps.
    metrics: by name, other means over samples, which are reported for the validation data.
    batch_size: samples per optimizer step, on all ranks together.
    epochs: passes over train_data.
    patience: evaluations without a lower validation loss after which training stops early.
    clip_norm: the maximum norm of the whole model's gradients, which are scaled down to it.
    seed: for the weights, the order of samples, and random numbers in training (dropout).
    split: splits a loader's batch into the model's arguments (a tuple, or a dict by name) and the
        target, tensors (nested in any way) whose first dimension is the samples.
    valid: takes a target and returns how many of its elements count in the loss (and metrics), if
        that differs from sample to sample; these are then means over those elements.
    checkpoint_steps: optimizer steps between two checkpoints, if the job keeps checkpoints; there
        is also one after each epoch.

    Raises ParallelError with everything that is wrong.
    """

    model: Callable[[], nn.Module]
    train_data: str
    loss: Measure
    optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer]
    batch_size: int
    epochs: int
    weights: str | Path | None = None
    validation_data: str | None = None
    scheduler: Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler] | None = None
    metrics: Mapping[str, Measure] = field(default_factory=dict)
    patience: int | None = None
    clip_norm: float | None = None
    seed: int = 0
    split: Callable[[Any], Batch] = last_is_target
    valid: Callable[[Any], torch.Tensor | int] | None = None
    checkpoint_steps: int | None = None

    def __post_init__(self) -> None:
        if problems := [*self._wrong_functions(), *self._wrong_values()]:
            raise ParallelError("this Task cannot be trained: " + "; ".join(problems))

    def new_model(self) -> nn.Module:
        """Return the result of `model`; raises ParallelError if it is not a module."""
        model = self.model()
        if not isinstance(model, nn.Module):
            raise ParallelError(
                f"the task's model returned a {type(model).__name__}, and must return a module; a "
                "list of stages is for a Pipeline of your own script"
            )
        return model

    def scalar_loss(self, output: object, target: object) -> torch.Tensor:
        """Return the loss of a batch; raises ParallelError if `loss` does not return a scalar."""
        loss = self.loss(output, target)
        if not isinstance(loss, torch.Tensor):
            raise ParallelError(
                f"the task's loss returned a {type(loss).__name__}, and must return a tensor, the "
                "mean over samples; if the model returns its loss, take that: "
                "loss=lambda output, target: output.loss"
            )
        return _as_scalar("loss", loss)

    def scalar_metric(self, name: str, output: object, target: object) -> torch.Tensor | float:
        """Return a metric of a batch; raises ParallelError if it is not one number."""
        metric = self.metrics[name](output, target)
        if isinstance(metric, torch.Tensor):
            return _as_scalar(f"metric {name!r}", metric)
        try:
            return float(metric)
        except (TypeError, ValueError):
            raise ParallelError(
                f"the task's metric {name!r} returned a {type(metric).__name__}, and must return "
                "one number, the mean over samples"
            ) from None

    def _wrong_functions(self) -> Iterator[str]:
        optional = {"scheduler": self.scheduler, "valid": self.valid}
        given: dict[str, object] = {n: value for n, value in optional.items() if value is not None}
        for name in ("model", "loss", "optimizer", "split"):
            given[name] = getattr(self, name)
        given |= {f"metrics[{name!r}]": value for name, value in self.metrics.items()}
        for name, value in given.items():
            if isinstance(value, nn.Module) and name == "model":
                yield (
                    "model is a module: give a function that creates it (lambda: Net()), since "
                    "each rank creates its own"
                )
            elif not callable(value):
                yield f"{name} is {value!r}, and must be a function"

    def _wrong_values(self) -> Iterator[str]:
        yield from _not_counts(self)
        for name in ("train_data", "validation_data"):
            value = getattr(self, name)
            if value is not None and not _is_reference(value):
                yield (
                    f"{name} is {value!r}: write 'module:function', the name of a module beside "
                    "the task's and of a function in it that returns the dataset"
                )
        for name in self.metrics:
            if not re.fullmatch(r"[a-z_][a-z0-9_]*", name) or name == "loss":
                yield (
                    f"the metric name {name!r} is invalid: use lower-case letters, digits and _, "
                    "but not 'loss', since logs and metric_definitions call it validation_NAME"
                )
        if self.weights is not None and not isinstance(self.weights, (str, Path)):
            yield f"weights is {self.weights!r}, and must be a folder's path, or None"
        if self.clip_norm is not None and not self.clip_norm > 0:
            yield f"clip_norm is {self.clip_norm!r}, and must be more than 0, or None"
        if self.validation_data is None:
            for name in ("patience", "metrics"):
                if getattr(self, name):
                    yield f"{name} is given without validation_data, which it needs"


def _as_scalar(which: str, value: torch.Tensor) -> torch.Tensor:
    if value.numel() != 1:
        raise ParallelError(
            f"the task's {which} returned a tensor of shape {tuple(value.shape)}, and must return "
            "one number, the mean over samples: reduction='mean', or .mean()"
        )
    return value.reshape(())


def _not_counts(task: Task) -> Iterator[str]:
    needed: Iterable[str] = ("batch_size", "epochs")
    optional = [n for n in ("patience", "checkpoint_steps") if getattr(task, n) is not None]
    for name in (*needed, *optional):
        value = getattr(task, name)
        if type(value) is not int or value < 1:
            yield f"{name} is {value!r}, and must be a whole number of at least 1"


def _is_reference(value: object) -> bool:
    return isinstance(value, str) and all(value.partition(":"))


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
