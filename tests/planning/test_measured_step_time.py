"""Seconds of a step on this machine's GPU: names, and the refusal without one."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.client.planning import (
    MachineCpu,
    Measure,
    MeasuredStepTime,
    Workload,
    WorkloadProfile,
    catalogue_name,
    profile_text,
)

GPT = Path(__file__).parents[2] / "examples" / "gpt"


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H200", "NVIDIA H200"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100"),
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100"),
        ("Tesla V100-SXM2-16GB", "NVIDIA V100"),
        ("Tesla T4", "NVIDIA T4"),
        ("NVIDIA L40S", "NVIDIA L40S"),
        ("NVIDIA L4", "NVIDIA L4"),
        ("NVIDIA GeForce RTX 4090", None),
    ],
)
def test_devices_have_the_catalogues_names(device: str, name: str | None) -> None:
    assert catalogue_name(device) == name


@pytest.mark.long
def test_without_a_gpu_the_memory_of_a_tasks_model_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And its steps are not: the file says what is missing."""
    pytest.importorskip("torch")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    command = [sys.executable, "-m", "launcher", "plan", "measure", "pipeline:train_set"]
    done = subprocess.run(
        [
            *command,
            *("--task", "task:make", "--batch-size", "8", "--samples", "8", "--seconds", "1"),
            *("--step-seconds", "NVIDIA A10G=0.05", "--out", str(tmp_path / "w.yaml")),
        ],
        cwd=GPT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    model = Workload.from_yaml(tmp_path / "w.yaml").model
    assert model is not None
    parameters = model.footprint.parameters
    assert parameters == model.footprint.gradients == model.footprint.states / 2  # AdamW
    assert parameters == 4 * model.footprint.largest + model.footprint.rest  # four blocks
    assert (model.blocks, model.batch_norm, model.precision) == ("blocks", False, None)
    kept = model.footprint.activations
    assert kept[False, True].sample < kept[False, False].sample
    assert kept[True, False].sample < kept[False, False].sample


STEP = MeasuredStepTime(
    accelerator="NVIDIA H100 80GB HBM3",
    batch_size=8,
    steps=10,
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


def test_a_measured_step_is_in_the_workload_by_the_catalogues_name() -> None:
    found = PROFILE.with_step(STEP)

    assert found.gpu_seconds == {"NVIDIA H100": Measure(mean=0.02, low=0.01, high=0.03)}
    assert found.measured["step"]["memory_bytes"] == 1000
    assert "10 steps on NVIDIA H100 80GB HBM3\n" in profile_text(found)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (replace(STEP, batch_size=64), "of 64 samples: not for the plan, whose batches have 8"),
        (
            replace(STEP, accelerator="NVIDIA GeForce RTX 4090"),
            "on NVIDIA GeForce RTX 4090, which is in no instance type",
        ),
    ],
    ids=["another batch", "another GPU"],
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
