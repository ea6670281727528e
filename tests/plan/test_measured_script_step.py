"""`launcher profile --script`: seconds of the step of a script that runs as it is."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from launcher.client.planning import (
    MachineCpu,
    Measure,
    MeasuredStepTime,
    Workload,
    WorkloadProfile,
    profile_text,
)

PIPELINE = """\
import time
import torch

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        time.sleep(0.01)  # the wait for a batch is no part of the step
        return torch.full((4,), float(index))

def train_set():
    return Rows()
"""
HEAD = """\
import argparse, os, sys, time
import torch
from torch.utils.data import DataLoader
from pipeline import Rows

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int)
size = parser.parse_args().batch_size
weights = torch.zeros(4, requires_grad=True)
"""
TORCH = """
loader = DataLoader(Rows(), batch_size=size, num_workers=2)
"""
LAUNCHER = """
import launcher.data
loader = launcher.data.DataLoader("pipeline:train_set", batch_size=size)
"""
#: It evaluates after each step, and would train until it is ended.
LOOP = """
while True:
    for batch in loader:
        time.sleep(0.05)
        (batch * weights).sum().backward()
        with torch.no_grad():
            for _ in DataLoader(Rows(), batch_size=1, sampler=[0]):
                time.sleep(0.02)
"""
JOB = """\
entry_point: train.py
source_dir: .
instance_type: local
instance_count: 1
hyperparameters: {batch-size: 2}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path


def profiled(
    folder: Path, script: str | None, *words: str, name: str = "train.py"
) -> subprocess.CompletedProcess[str]:
    if find_spec("torch") is None:
        pytest.skip("no torch")
    if script is not None:
        (folder / "train.py").write_text(script)
    given = ("--script", name, "--samples", "8", "--seconds", "2", "--steps", "6")
    return subprocess.run(
        [sys.executable, "-m", "launcher", "profile", "pipeline:train_set", *given, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )


def step_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["profiles"]
    return dict(found["measured"]["step"])


@pytest.mark.long
@pytest.mark.parametrize("loader", [TORCH, LAUNCHER], ids=["torch", "launcher"])
def test_the_step_is_the_time_between_a_batch_and_asking_for_the_next(
    folder: Path, loader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    step = step_of(profiled(folder, HEAD + loader + LOOP, "-o", "json"))

    assert (step["accelerator"], step["batch_size"], step["steps"]) == ("CPU", 2, 6)
    # 50 ms, and the evaluation's batch of 10 ms and its 20 ms; the wait of 20 ms is not in it.
    assert step["seconds"]["low"] >= 0.08
    assert step["memory_bytes"] == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "code", "why"),
    [
        ("raise ValueError('no luck')", 1, "ValueError: no luck"),
        ("import sys; sys.exit('bad')", 1, "train.py ended with 'bad' before enough steps"),
        ("print(1)", 1, "train.py did 0 steps"),
        (None, 2, "there is no script train.py among the job's files"),
    ],
    ids=["it raises", "it exits", "it reads nothing", "there is none"],
)
def test_a_script_that_gives_no_steps_is_refused(
    folder: Path, script: str | None, code: int, why: str
) -> None:
    done = profiled(folder, script)

    assert done.returncode == code
    assert why in done.stderr


STEP = MeasuredStepTime(
    accelerator="NVIDIA A10G",
    batch_size=8,
    steps=50,
    median=0.02,
    low=0.01,
    high=0.03,
    memory_bytes=1000,
)
PROFILE = WorkloadProfile(
    dataset="pipeline:train_set",
    batch_size=8,
    cpu_seconds=Measure.exact(0.01),
    bytes_per_batch=100,
    cpu=MachineCpu(model="CPU", count=2, family="c5"),
    measured={"samples": 8},
)


def test_steps_of_the_planned_batch_are_the_workloads() -> None:
    found = PROFILE.with_step(STEP)

    assert found.gpu_seconds == {"NVIDIA A10G": Measure(mean=0.02, low=0.01, high=0.03)}
    assert "50 steps on NVIDIA A10G\n" in profile_text(found)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (replace(STEP, batch_size=64), "of 64 samples: not for the plan, whose batches have 8"),
        (replace(STEP, batch_size=0), "of an unknown number of samples"),
        (replace(STEP, accelerator="CPU", memory_bytes=0), "on CPU, which is in no instance type"),
    ],
    ids=["another batch", "unknown", "a CPU"],
)
def test_other_steps_are_recorded_and_the_text_says_why(step: MeasuredStepTime, why: str) -> None:
    found = PROFILE.with_step(step)

    assert found.gpu_seconds == {}
    assert found.measured["step"]["seconds"]["median"] == 0.02
    assert why in profile_text(found)


def test_a_profile_is_the_workload_of_its_file(tmp_path: Path) -> None:
    found = PROFILE.with_step(STEP).with_scaling({1: 10.0, 2: 15.0})
    (tmp_path / "w.yaml").write_text(found.to_yaml())

    assert found.workload() == Workload.from_yaml(tmp_path / "w.yaml")
    assert found.workload().parallel_efficiency == 0.75
    assert "1: 10, 2: 15 samples/s; 75% of a CPU is left" in profile_text(found)
