"""What a task may be, and what is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from launcher.errors import ParallelError  # noqa: E402 - they need torch
from launcher.trainers import last_is_target, make_task  # noqa: E402


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch_size": 0}, "batch_size is 0, and must be a whole number of at least 1"),
        ({"epochs": 2.5}, r"epochs is 2\.5, and must be a whole number"),
        ({"patience": 0}, "patience is 0, and must be"),
        ({"checkpoint_steps": True}, "checkpoint_steps is True, and must be"),
        ({"clip_norm": -1.0}, r"clip_norm is -1\.0, and must be more than 0"),
        ({"weights": 3}, "weights is 3, and must be a folder's path, or None"),
        ({"train_data": "pipeline"}, "train_data is 'pipeline': write 'module:function'"),
        ({"validation_data": [1, 2]}, r"validation_data is \[1, 2\]: write 'module:function'"),
        ({"loss": None}, "loss is None, and must be a function"),
        ({"scheduler": 3}, "scheduler is 3, and must be a function"),
        ({"metrics": {"top5": 1}}, r"metrics\['top5'\] is 1, and must be a function"),
        ({"metrics": {"F1": max}}, "the metric name 'F1' is invalid: use lower-case letters"),
        ({"metrics": {"loss": max}}, "the metric name 'loss' is invalid"),
        (
            {"validation_data": None, "patience": 2},
            "patience is given without validation_data.*; metrics is given without",
        ),
    ],
    ids=str,
)
def test_a_wrong_field_is_refused(
    make: Callable[..., Any], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ParallelError, match=words):
        make(**changes)


def test_a_model_that_is_no_function_is_refused(make: Callable[..., Any]) -> None:
    with pytest.raises(ParallelError, match="model is a module: give a function that creates it"):
        make(model=torch.nn.Linear(2, 2))


def test_all_problems_are_reported_at_once(make: Callable[..., Any]) -> None:
    with pytest.raises(ParallelError, match=r"batch_size is 0.*; epochs is 0"):
        make(batch_size=0, epochs=0)


def test_the_last_of_a_batch_is_the_target() -> None:
    assert last_is_target([1, 2, 3]) == ((1, 2), 3)
    with pytest.raises(ParallelError, match="a batch is a dict: give the Task a split"):
        last_is_target({"x": 1})


def test_hyperparameters_are_the_arguments_of_the_function(make: Callable[..., Any]) -> None:
    task = make_task("task:make", {"epochs": 7, "batch-size": 4})
    assert (task.epochs, task.batch_size) == (7, 4)


@pytest.mark.parametrize(
    ("reference", "hyperparameters", "words"),
    [
        ("task:made", {}, "task.py has no function 'made'"),
        ("other_task:make", {"epoch": 7}, r"other_task:make\(epochs\).*{'epoch': 7}: missing a"),
        ("other_task:make", {"epochs": 7}, "returned a int, but must return a"),
    ],
)
def test_what_makes_no_task_is_refused(
    make: Callable[..., Any],
    tmp_path: Path,
    reference: str,
    hyperparameters: dict[str, Any],
    words: str,
) -> None:
    (tmp_path / "other_task.py").write_text("def make(epochs):\n    return epochs\n")
    try:
        with pytest.raises(ParallelError, match=words):
            make_task(reference, hyperparameters)
    finally:
        sys.modules.pop("other_task", None)


def test_a_model_that_is_no_module_is_refused(make: Callable[..., Any]) -> None:
    task = make(model=lambda: [torch.nn.Linear(1, 1)])
    with pytest.raises(ParallelError, match="model returned a list, and must return a module"):
        task.new_model()


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (None, "loss returned a NoneType, and must return a tensor.*: output.loss"),
        ({"loss": 1.0}, "loss returned a dict, and must return a tensor"),
        (0.5, "loss returned a float"),
        (torch.ones(4), r"loss returned a tensor of shape \(4,\), .*reduction='mean'"),
    ],
    ids=str,
)
def test_a_loss_that_is_no_scalar_is_refused(
    make: Callable[..., Any], returned: object, words: str
) -> None:
    task = make(loss=lambda output, target: returned)
    with pytest.raises(ParallelError, match=words):
        task.scalar_loss(None, None)


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ({"top5": 1}, "the task's metric 'top5' returned a dict, and must return one number"),
        (torch.ones(2), r"metric 'top5' returned a tensor of shape \(2,\)"),
    ],
    ids=str,
)
def test_a_metric_that_is_no_number_is_refused(
    make: Callable[..., Any], returned: object, words: str
) -> None:
    task = make(metrics={"top5": lambda output, target: returned})
    with pytest.raises(ParallelError, match=words):
        task.scalar_metric("top5", None, None)


def test_a_loss_and_metrics_may_be_of_one_element(make: Callable[..., Any]) -> None:
    metrics = {"plain": lambda *_: 0.5, "tensor": lambda *_: torch.ones(1, 1)}
    task = make(loss=lambda *_: torch.ones(1), metrics=metrics)
    assert task.scalar_loss(None, None).shape == ()
    assert [float(task.scalar_metric(name, None, None)) for name in metrics] == [0.5, 1.0]
