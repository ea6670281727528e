"""Trainers learn what a plain loop in one process does, and say so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tasks import TASK, alone, furthest, run

pytest.importorskip("torch")

#: With it the validation loss does not fall for ever.
_STEEP = TASK.replace("lr=0.01", "lr=0.2").replace("seed=3", "seed=3, patience=2")

_WAYS = {
    "two replicas": (2, {}),
    "two stages": (2, {"partitions": 2, "microbatches": 2, "starts": ["layers.1"]}),
    "accumulated": (2, {"accumulation": 3}),
    "two shards": (2, {"sharded": True}),
    "two shards, accumulated": (2, {"sharded": True, "accumulation": 3}),
    "computed again": (2, {"recomputed": ["layers"]}),
    "virtual stages that are pinned": (
        2,
        {
            "partitions": 2,
            "microbatches": 4,
            "virtual_stages": 2,
            "stages": {"layers.1": 1, "layers.2": 2, "head": 3},
        },
    ),
    "one stage": (1, {"microbatches": 3}),
    "three stages, simple": (
        3,
        {
            "partitions": 3,
            "microbatches": 6,
            "starts": ["layers.1", "head"],
            "schedule": "simple",
        },
    ),
    "two replicas of two stages": (
        4,
        {"partitions": 2, "microbatches": 3, "accumulation": 2, "starts": ["layers.2"]},
    ),
    "two shards of two stages": (
        4,
        {"partitions": 2, "microbatches": 3, "starts": ["layers.2"], "shard_degree": 2},
    ),
    "two shards of one stage": (2, {"accumulation": 3, "shard_degree": 2}),
    "spread": (
        4,
        {"partitions": 2, "microbatches": 2, "starts": ["layers.2"], "placement": "spread"},
    ),
}
_FAST = ("two replicas", "two stages")


@pytest.mark.long
@pytest.mark.parametrize(
    ("ranks", "parallel"),
    [
        pytest.param(*way, id=name, marks=() if name in _FAST else pytest.mark.slow)
        for name, way in _WAYS.items()
    ],
)
def test_a_task_is_learned_as_in_one_process_and_ended_early_alike(
    make: Callable[..., Any], tmp_path: Path, ranks: int, parallel: dict[str, Any]
) -> None:
    (tmp_path / "task.py").write_text(_STEEP)
    outcome = run(
        tmp_path, ranks=ranks, task=_STEEP, parallel=parallel, hyperparameters={"epochs": 30}
    )
    assert outcome.code == 0, outcome.output
    exec(compile(_STEEP, "task.py", "exec"), namespace := {})
    weights, told = alone(namespace["make"](epochs=30))
    assert len(told) < 30
    assert furthest(weights, outcome.weights()) <= 1e-10
    evaluations = outcome.events("evaluation")
    assert {line.get("rank", 0) for line in evaluations} == {0}
    assert [line["epoch"] for line in evaluations] == list(range(len(told)))
    for line, means in zip(evaluations, told, strict=True):
        for name, value in means.items():
            assert line[f"validation_{name}"] == pytest.approx(value, abs=1e-6)
    (stop,) = outcome.events("early_stop")
    assert (stop["epoch"], stop["patience"]) == (len(told) - 1, 2)
    assert {line.get("rank", 0) for line in outcome.events("train_step")} == set(range(ranks))


_BY_NAME = TASK.replace("def forward(self, x)", "def forward(self, mask=None, *, x)").replace(
    "seed=3,", 'seed=3, split=lambda batch: ({"x": batch[0]}, batch[1]),'
)


@pytest.mark.long
@pytest.mark.parametrize(
    "parallel", [{}, _WAYS["two stages"][1]], ids=["two replicas", "two stages"]
)
def test_arguments_of_the_model_may_be_named(
    make: Callable[..., Any], tmp_path: Path, parallel: dict[str, Any]
) -> None:
    outcome = run(tmp_path, ranks=2, task=_BY_NAME, parallel=parallel)
    assert outcome.code == 0, outcome.output
    weights, _ = alone(make())
    assert furthest(weights, outcome.weights()) <= 1e-10


#: Points with a negative target do not count; most steps of a replica have another number of them.
_UNEVEN = TASK.replace(
    "return (output - target).square().mean()",
    "return (output - target)[target >= 0].square().mean()",
).replace("seed=3,", "seed=3, valid=lambda target: (target >= 0).sum(),")


@pytest.mark.slow
@pytest.mark.parametrize(
    "parallel",
    [
        {"accumulation": 3},
        {"partitions": 2, "microbatches": 6, "starts": ["layers.1"]},
        {"microbatches": 3, "shard_degree": 2},
        {
            "partitions": 2,
            "microbatches": 4,
            "virtual_stages": 2,
            "stages": {"layers.1": 1, "layers.2": 2, "head": 3},
        },
    ],
    ids=["two replicas", "two stages", "a sharded stage", "pinned, virtual"],
)
def test_means_are_over_the_labels_that_count(
    tmp_path: Path, parallel: dict[str, Any], make
) -> None:
    outcome = run(tmp_path, ranks=2, task=_UNEVEN, parallel=parallel)
    assert outcome.code == 0, outcome.output
    exec(compile(_UNEVEN, "task.py", "exec"), namespace := {})
    weights, _ = alone(namespace["make"]())
    assert furthest(weights, outcome.weights()) <= 1e-10


@pytest.mark.long
def test_a_stage_without_parameters_learns_as_one_process(
    make: Callable[..., Any], tmp_path: Path
) -> None:
    ending = TASK.replace("self.head = ", "self.out = nn.Tanh()\n        self.head = ").replace(
        "self.head(x)[:, 0]", "self.out(self.head(x)[:, 0])"
    )
    stages = {"partitions": 2, "microbatches": 2, "starts": ["out"]}
    folder = {"LAUNCHER_CHECKPOINT_DIR": str(tmp_path / "checkpoints")}
    for epochs in (2, 3):
        outcome = run(
            tmp_path,
            ranks=2,
            task=ending,
            parallel=stages,
            hyperparameters={"epochs": epochs},
            **folder,
        )
        assert outcome.code == 0, outcome.output
    exec(compile(ending, "task.py", "exec"), namespace := {})
    weights, _ = alone(namespace["make"]())
    assert furthest(weights, outcome.weights()) <= 1e-10
