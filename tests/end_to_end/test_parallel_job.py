"""A job that says how its ranks share a model, from its job file to the ranks that do so."""

from __future__ import annotations

from pathlib import Path

import pytest
from digits_example import Example

JOB = """\
entry_point: train.py
source_dir: .
instance_type: ml.g4dn.xlarge
instance_count: 2
distribution:
  model_parallel: {partitions: 2, microbatches: 8, starts: [blocks.4], precision: bf16}
"""
SCRIPT = """\
from launcher import parallel

world = parallel.init(global_batch=32)
print(
    f"stage={parallel.pp_rank()} of {parallel.pp_size()} replica={parallel.dp_rank()}"
    f" microbatch={world.degrees.microbatch} {world.job.starts} {world.job.precision}"
)
parallel.leave()
"""
TASK_JOB = """\
task: task:make
source_dir: .
instance_type: ml.g4dn.xlarge
instance_count: 2
distribution: {model_parallel: {partitions: 2, microbatches: 2, starts: ["1"]}}
hyperparameters: {width: 3, batch-size: 8}
"""
TASK = """\
import torch
from torch import nn
from launcher.trainers import Task

def numbers():
    return [(torch.tensor([float(n), 1.0]), torch.tensor([2.0 * n])) for n in range(16)]

def make(width: int, batch_size: int) -> Task:
    return Task(
        model=lambda: nn.Sequential(nn.Linear(2, width), nn.Linear(width, 1)),
        train_data="task:numbers",
        loss=nn.functional.mse_loss,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.001),
        batch_size=batch_size,
        epochs=1,
    )
"""


def test_two_hosts_have_a_stage_each_of_the_model_that_the_job_cuts(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = tmp_path / "cut"
    folder.mkdir()
    (folder / "job.yaml").write_text(JOB)
    (folder / "train.py").write_text(SCRIPT)

    run = Example(folder, tmp_path / "home").run("job.yaml")

    assert run.code == 0, run.talk
    said = "of 2 replica=0 microbatch=4 ('blocks.4',) bf16"
    assert run.lines("stage=.*") == {f"stage=0 {said}", f"stage=1 {said}"}


@pytest.mark.slow
def test_a_task_is_trained_without_a_script(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / "job.yaml").write_text(TASK_JOB)
    (folder / "task.py").write_text(TASK)
    run = Example(folder, tmp_path / "home").run("job.yaml")
    assert run.code == 0, run.talk
    assert run.weights().keys() == {"0.weight", "0.bias", "1.weight", "1.bias"}
