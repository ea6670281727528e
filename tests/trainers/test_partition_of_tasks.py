"""The process that cuts a task, as the client runs it: question in, partition out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from launcher.shared import PartitionFile

_REPOSITORY = Path(__file__).parents[2]
_TASK = """
import torch
from torch import nn
from torch.nn.functional import mse_loss
from launcher.trainers import Task

def data():
    return [(torch.ones(width), torch.zeros(4)) for width in [8] * 64]

def make(*, depth=6, broken=False):
    def model():
        if broken:
            raise OSError("no weights here")
        return nn.Sequential(*(nn.Linear(8, 8) for _ in range(depth)), nn.Linear(8, 4))
    return Task(
        model=model, train_data="task:data", loss=mse_loss, batch_size=32, epochs=1,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    )

fixed = make()
"""


def ask(folder: Path, task: str = "task:make", **question: Any) -> subprocess.CompletedProcess[str]:
    (folder / "task.py").write_text(_TASK)
    whole = {
        "task": task,
        "source_dir": str(folder),
        "output": str(folder / "partition.json"),
        "partitions": 2,
        "microbatches": 4,
        "hyperparameters": {},
        "link": {"latency": 1e-4, "bandwidth": 1e9},
        **question,
    }
    return subprocess.run(
        [sys.executable, "-m", "launcher.trainers.partition_task"],
        input=json.dumps(whole),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(_REPOSITORY)},
        capture_output=True,
        text=True,
    )


@pytest.mark.long
def test_the_model_of_a_task_is_measured_at_its_microbatch(tmp_path: Path) -> None:
    done = ask(tmp_path, hyperparameters={"depth": 7}, replicas=2, link=None, recomputed=["3"])
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr  # as of a dataset that is read again for each profile
    found = PartitionFile.read(tmp_path / "partition.json")
    assert found.task == "task:make"
    assert found.fingerprint.example == ("[4, 8] float32",)  # 32 samples, 2 replicas, 4 parts
    assert found.fingerprint.calls == tuple("01234567")
    assert (found.profile, found.runs, found.link.source) == ("measured", 15, "measured")
    assert [each.states for each in found.modules] == [each.gradients for each in found.modules]
    assert found.modules[3].kept == 0  # it is computed again
    assert len(found.starts) == 1


@pytest.mark.long
def test_a_task_itself_can_be_estimated_and_given_a_link(tmp_path: Path) -> None:
    done = ask(tmp_path, task="task:fixed", profile="estimated", objective="memory")
    assert done.returncode == 0, done.stderr
    found = PartitionFile.read(tmp_path / "partition.json")
    assert (found.profile, found.objective, found.link.source) == ("estimated", "memory", "given")
    assert found.starts > ("1",)  # early stages have more microbatches under way


@pytest.mark.long
@pytest.mark.parametrize(
    ("question", "last"),
    [
        ({"memory_cap": 100}, "error: 2 stages need "),
        ({"microbatches": 5}, "error: global_batch is 32, which is not divisible by 1 replicas x"),
        ({"task": "task:none"}, "error: the task is 'task:none', but task.py has no function"),
        ({"hyperparameters": {"broken": True}}, "error: OSError: no weights here"),
    ],
    ids=["cap", "batch", "name", "model"],
)
def test_what_cannot_be_cut_is_refused(tmp_path: Path, question: dict[str, Any], last: str) -> None:
    done = ask(tmp_path, **question)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith(last)
    assert not (tmp_path / "partition.json").exists()
