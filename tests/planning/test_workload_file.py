"""Workload files: what they may say, and every problem with its line and fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.client.planning import Measure, Workload
from launcher.errors import SpecError

SMALL = """\
batch_size: 64
cpu_seconds_per_sample: 0.01
bytes_per_batch: 1e6
gpu_seconds_per_step: {NVIDIA A10G: 0.05}
"""
LARGE = """\
# measured on a g5.16xlarge
batch_size: 64
cpu_seconds_per_sample: {mean: 0.01, low: 0.009, high: 0.012, deviation: 0.004}
bytes_per_batch: 1000000
gpu_seconds_per_step:
  NVIDIA A10G: {mean: 0.05, low: 0.049, high: 0.052}
  NVIDIA A100: 0.02
wait_seconds_per_sample: {mean: 0.02, low: 0.01, high: 0.03}
bytes_per_worker: 3e8
communication_seconds_per_step: 0.004
samples_per_epoch: 1281167
epochs: 90
cpu_speed: {c5: 1, c6i: 1.2}
parallel_efficiency: 0.8
cpus_per_rank: 0.5
entry_point: main.py
datasets: ["pipeline:train_set"]
"""


@pytest.fixture
def read(tmp_path: Path):
    def reading(text: str) -> Workload:
        (tmp_path / "w.yaml").write_text(text)
        return Workload.from_yaml(tmp_path / "w.yaml")

    return reading


def test_four_fields_are_enough(read) -> None:
    assert read(SMALL) == Workload(
        batch_size=64,
        cpu_seconds_per_sample=Measure.exact(0.01),
        bytes_per_batch=1e6,
        gpu_seconds_per_step={"NVIDIA A10G": Measure.exact(0.05)},
    )


def test_every_field_is_read(read) -> None:
    assert read(LARGE) == Workload(
        batch_size=64,
        cpu_seconds_per_sample=Measure(mean=0.01, low=0.009, high=0.012, deviation=0.004),
        bytes_per_batch=1e6,
        gpu_seconds_per_step={
            "NVIDIA A10G": Measure(mean=0.05, low=0.049, high=0.052),
            "NVIDIA A100": Measure.exact(0.02),
        },
        wait_seconds_per_sample=Measure(mean=0.02, low=0.01, high=0.03),
        bytes_per_worker=3e8,
        communication_seconds_per_step=Measure.exact(0.004),
        samples_per_epoch=1281167,
        epochs=90,
        cpu_speed={"c5": 1.0, "c6i": 1.2},
        parallel_efficiency=0.8,
        cpus_per_rank=0.5,
        entry_point="main.py",
        datasets=("pipeline:train_set",),
    )


@pytest.mark.parametrize(
    ("line", "what", "where", "fix"),
    [
        ("batch_size: 0", "0 is not a whole number above 0", "w.yaml:5 (batch_size)", "write one"),
        ("batch_size: many", '"many" is not a whole number', "w.yaml:5", "write one"),
        ("batch_size: 1" + "0" * 90, "is out of range", "w.yaml:5 (batch_size)", "write 1e+18 at"),
        ("bytes_per_batch: 1e308", "1e+308 is out of range", "w.yaml:5", "write 1e+18 at most"),
        (
            "gpu_seconds_per_step: {NVIDIA A10G: 0}",
            "0 is out of range",
            "w.yaml:5 (gpu_seconds_per_step.NVIDIA A10G)",
            "write more than 0",
        ),
        ("bytes_per_batch: -1", "-1 is out of range", "w.yaml:5", "write 0 or more"),
        ("bytes_per_batch: .inf", "inf is not a number", "w.yaml:5", "write a number, 0 or more"),
        ("epochs: true", "true is not a whole number", "w.yaml:5 (epochs)", "write one"),
        ("epoch: 3", '"epoch" is not a field', "w.yaml:5 (epoch)", 'did you mean "epochs"?'),
        ("batchsize: 64", '"batchsize" is not a field', "w.yaml:5", 'did you mean "batch_size"?'),
        ("colour: red", '"colour" is not a field', "w.yaml:5 (colour)", "known fields: batch_size"),
        (
            "cpu_seconds_per_sample: {low: 1}",
            '"mean" is missing',
            "w.yaml:5 (cpu_seconds_per_sample)",
            "write {mean: ..., low: ..., high: ...}",
        ),
        (
            "cpu_seconds_per_sample: {mean: 1, low: 2}",
            "the mean 1 is not between 2 and 1",
            "w.yaml:5",
            "the range of the mean, not that of samples",
        ),
        (
            "cpu_seconds_per_sample: {mean: 1, median: 2}",
            '"median" is not a part of a measure',
            "w.yaml:5 (cpu_seconds_per_sample.median)",
            "known fields: mean, low, high, deviation",
        ),
        (
            "gpu_seconds_per_step: 0.05",
            "0.05 names no accelerator",
            "w.yaml:5 (gpu_seconds_per_step)",
            'write the seconds by accelerator: {"NVIDIA A100": 0.086}',
        ),
        (
            "gpu_seconds_per_step: {A100: 0.05}",
            '"A100" is no accelerator',
            "w.yaml:5 (gpu_seconds_per_step.A100)",
            'did you mean "NVIDIA A100"?',
        ),
        (
            "gpu_seconds_per_step: {NVIDIA A100: fast}",
            '"fast" is not a number',
            "w.yaml:5 (gpu_seconds_per_step.NVIDIA A100)",
            "write a number, 0 or more",
        ),
        ("cpu_speed: {c55: 1}", '"c55" is no instance family', "w.yaml:5", 'did you mean "c5"?'),
        ("cpu_speed: {c5: 0}", "0 is out of range", "w.yaml:5 (cpu_speed.c5)", "write more than 0"),
        ("cpu_speed: fast", '"fast" is not a mapping', "w.yaml:5", "{c5: 1, c6i: 1.2}"),
        ("parallel_efficiency: 1.5", "1.5 is more than all of a vCPU", "w.yaml:5", "1 or less"),
        ("entry_point: 3", "3 is not text", "w.yaml:5 (entry_point)", 'write "3"'),
        ("datasets: a:b", '"a:b" is not a list of texts', "w.yaml:5", "write [module:function]"),
    ],
)
def test_a_problem_has_its_line_and_its_fix(
    read, line: str, what: str, where: str, fix: str
) -> None:
    field = line.partition(":")[0].replace("batchsize", "batch_size")
    kept = "".join(each for each in SMALL.splitlines(True) if not each.startswith(field + ":"))
    filler = "# filler\n" * (4 - len(kept.splitlines()))

    with pytest.raises(SpecError) as caught:
        read(kept + filler + line + "\n")

    (problem,) = caught.value.problems
    assert what in problem.what
    assert where in problem.where
    assert fix in problem.fix


def test_all_problems_are_reported_at_once_in_the_order_of_the_file(read) -> None:
    with pytest.raises(SpecError) as caught:
        read("batch_size: 0\nbytes_per_batch: x\ncpu_speed: {zz9: -1}\n")

    assert [problem.where for problem in caught.value.problems] == [
        "w.yaml:1 (cpu_seconds_per_sample)",
        "w.yaml:1 (gpu_seconds_per_step)",
        "w.yaml:1 (batch_size)",
        "w.yaml:2 (bytes_per_batch)",
        "w.yaml:3 (cpu_speed.zz9)",
        "w.yaml:3 (cpu_speed.zz9)",
    ]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "the document describes no workload"),
        ("- a\n", "the document describes no workload"),
        ("batch_size: [1\n", "not YAML"),
        (SMALL + "batch_size: 3\n", '"batch_size" is written twice, first on line 1'),
    ],
)
def test_a_file_that_is_no_workload(read, text: str, what: str) -> None:
    with pytest.raises(SpecError, match=what):
        read(text)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"none\.yaml cannot be read: No such file"):
        Workload.from_yaml(tmp_path / "none.yaml")
