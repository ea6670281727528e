"""Tasks in 16 bits, with data hosts, and of jobs that go on with other ranks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from completed_run import completed_run
from tasks import PIPELINE, TASK, alone, furthest, run

pytest.importorskip("torch")

pytestmark = pytest.mark.slow

_STAGES = {"partitions": 2, "microbatches": 2, "starts": ["layers.1"]}
#: Autocast leaves numbers of 64 bits alone.
_SINGLE = TASK.replace(".double()", "").replace(
    "seed=3,", "seed=3, split=lambda batch: ((batch[0].float(),), batch[1].float()),"
)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize(
    "parallel",
    [{}, {"sharded": True}, _STAGES, {"microbatches": 2, "shard_degree": 2}],
    ids=["replicas", "shards", "stages", "a sharded stage"],
)
def test_16_bits_learn_nearly_the_same(
    tmp_path: Path, parallel: dict[str, Any], precision: str
) -> None:
    weights = [
        run(tmp_path, ranks=2, task=_SINGLE, parallel={**parallel, **more}, name=name).weights()
        for name, more in (("plain", {}), ("low", {"precision": precision}))
    ]
    assert 1e-6 < furthest(*weights) < 0.2


@pytest.mark.parametrize("compression", ["fp16", "power_sgd"])
def test_compressed_gradients_learn_nearly_the_same(
    make: Callable[..., Any], tmp_path: Path, compression: str
) -> None:
    job = run(tmp_path, ranks=2, task=_SINGLE, parallel={"compression": compression})
    assert job.code == 0, job.output
    exec(compile(_SINGLE, "task.py", "exec"), namespace := {})
    task = namespace["make"]()
    plain = run(tmp_path, ranks=2, task=_SINGLE, name="plain")
    assert task.epochs == 3
    assert furthest(plain.weights(), job.weights()) < 0.05


@pytest.mark.parametrize(
    ("first", "then"),
    [((2, {}), (2, _STAGES)), ((2, _STAGES), (1, {})), ((1, {}), (2, {"sharded": True}))],
    ids=["replicas to stages", "stages to one", "one to shards"],
)
def test_a_job_resumes_with_other_ranks(
    make: Callable[..., Any], tmp_path: Path, first: tuple[int, Any], then: tuple[int, Any]
) -> None:
    folder = {"LAUNCHER_CHECKPOINT_DIR": str(tmp_path / "checkpoints")}
    for (ranks, parallel), epochs in ((first, 2), (then, 4)):
        hyperparameters = {"epochs": epochs}
        outcome = run(
            tmp_path, ranks=ranks, parallel=parallel, hyperparameters=hyperparameters, **folder
        )
        assert outcome.code == 0, outcome.output
    (loaded,) = outcome.events("checkpoint_loaded")
    assert loaded["step"] == 10  # 70 points in steps of 12, twice
    weights, _ = alone(make(epochs=4))
    assert furthest(weights, outcome.weights()) <= 1e-10


_JOB = """
task: task:make
source_dir: .
instance_groups:
  - {instance_group_name: data_group, instance_type: ml.c5.large, instance_count: 1}
  - {instance_group_name: train_group, instance_type: ml.c5.xlarge, instance_count: 2}
distribution: DISTRIBUTION
data_service: {datasets: ["pipeline:train_set", "pipeline:validation_set"]}
metric_definitions:
  - {Name: validation_loss, Regex: "validation_loss=([0-9.]+)"}
"""


@pytest.mark.parametrize(
    "distribution",
    [
        "{data_parallel: {}}",
        "{model_parallel: {partitions: 2, microbatches: 2, starts: [layers.1]}}",
    ],
    ids=["replicas", "stages"],
)
def test_a_task_takes_its_data_from_data_hosts(
    make: Callable[..., Any], tmp_path: Path, distribution: str
) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "pipeline.py").write_text(PIPELINE)
    (folder / "task.py").write_text(TASK)
    (folder / "job.yaml").write_text(_JOB.replace("DISTRIBUTION", distribution))
    summary, log = completed_run(folder / "job.yaml", tmp_path / "home")
    assert "batches_served" in log
    _, told = alone(make())
    measured = summary["metrics"]["validation_loss"]
    assert measured == pytest.approx(told[-1]["loss"], abs=1e-6)
