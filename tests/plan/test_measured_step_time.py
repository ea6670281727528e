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
    command = [sys.executable, "-m", "launcher", "profile", "pipeline:train_set"]
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


def test_a_measured_step_is_in_the_workload_by_the_catalogues_name(tmp_path: Path) -> None:
    step = MeasuredStepTime(
        accelerator="NVIDIA H100 80GB HBM3",
        batch_size=8,
        steps=10,
        median=0.02,
        low=0.01,
        high=0.03,
        memory_bytes=1000,
    )
    profile = WorkloadProfile(
        dataset="pipeline:train_set",
        batch_size=8,
        cpu_seconds=Measure.exact(0.01),
        bytes_per_batch=100,
        cpu=MachineCpu(model="CPU", count=2, family="c5"),
    )
    measured = Measure(mean=0.02, low=0.01, high=0.03)
    assert profile.with_step(step).gpu_seconds == {"NVIDIA H100": measured}
    file = tmp_path / "w.yaml"
    file.write_text(profile.with_step(step).to_yaml())
    assert Workload.from_yaml(file).gpu_seconds_per_step == {"NVIDIA H100": measured}
    assert profile.with_step(step).measured["step"]["memory_bytes"] == 1000
    unknown = replace(step, accelerator="NVIDIA GeForce RTX 4090")
    assert profile.with_step(unknown).gpu_seconds == {}
