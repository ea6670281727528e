"""Workload files: what they may say, and every problem with its line and fix."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from launcher.client.planning import Measure, ModelFigures, Workload, model_fields
from launcher.errors import SpecError
from launcher.shared import Activations, Footprint

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
MODEL = "parameters: 8, gradients: 4, optimizer: 16"
MEASURED = ModelFigures(
    footprint=Footprint(
        parameters=1000,
        gradients=900,
        states=1800,
        largest=200,
        rest=100,
        activations={
            (False, False): Activations(sample=100),
            (True, True): Activations(sample=15, fixed=500),
        },
    ),
    blocks="layers",
    batch_norm=True,
    precision="bf16",
    recomputed=True,
)


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
    ("text", "figures"),
    [
        (yaml.safe_dump(model_fields(MEASURED), default_flow_style=True, width=1000), MEASURED),
        (  # without its blocks, shards gather the whole model
            "{parameters: 4.0e+9, gradients: 4000000000, optimizer: 8.0e+9}",
            ModelFigures(
                footprint=Footprint(
                    parameters=4 * 10**9, gradients=4 * 10**9, states=8 * 10**9, rest=4 * 10**9
                )
            ),
        ),
        (
            f"{{{MODEL}, largest_block: null, outside_blocks: null, "
            "activations: {full: {sample: 2, fixed: null}}}",
            ModelFigures(
                footprint=Footprint(
                    parameters=8,
                    gradients=4,
                    states=16,
                    rest=8,
                    activations={(False, False): Activations(sample=2)},
                )
            ),
        ),
    ],
    ids=["as measured", "three numbers", "null is absent"],
)
def test_a_model_is_read(read, text: str, figures: ModelFigures) -> None:
    assert read(f"{SMALL}model: {text}\n").model == figures


PROBLEMS = [
    ("batch_size: 0", "0 is not a whole number above 0", "(batch_size)", "write one"),
    ("batch_size: many", '"many" is not a whole number', "", "write one"),
    ("batch_size: 1" + "0" * 90, "is out of range", "(batch_size)", "write 1e+18 at"),
    ("bytes_per_batch: 1e308", "1e+308 is out of range", "", "write 1e+18 at most"),
    (
        "gpu_seconds_per_step: {NVIDIA A10G: 0}",
        *("0 is out of range", "(gpu_seconds_per_step.NVIDIA A10G)", "write more than 0"),
    ),
    ("bytes_per_batch: -1", "-1 is out of range", "", "write 0 or more"),
    ("bytes_per_batch: .inf", "inf is not a number", "", "write a number, 0 or more"),
    ("epochs: true", "true is not a whole number", "(epochs)", "write one"),
    ("epoch: 3", '"epoch" is not a field', "(epoch)", 'did you mean "epochs"?'),
    ("batchsize: 64", '"batchsize" is not a field', "", 'did you mean "batch_size"?'),
    ("colour: red", '"colour" is not a field', "(colour)", "known fields: batch_size"),
    (
        "cpu_seconds_per_sample: {low: 1}",
        *('"mean" is missing', "(cpu_seconds_per_sample)"),
        "write {mean: ..., low: ..., high: ...}",
    ),
    (
        "cpu_seconds_per_sample: {mean: 1, low: 2}",
        *("the mean 1 is not between 2 and 1", "", "the range of the mean, not that of samples"),
    ),
    (
        "cpu_seconds_per_sample: {mean: 1, median: 2}",
        *('"median" is not a part of a measure', "(cpu_seconds_per_sample.median)"),
        "known fields: mean, low, high, deviation",
    ),
    (
        "gpu_seconds_per_step: 0.05",
        *("0.05 names no accelerator", "(gpu_seconds_per_step)"),
        'write the seconds by accelerator: {"NVIDIA A100": 0.086}',
    ),
    (
        "gpu_seconds_per_step: {A100: 0.05}",
        *('"A100" is no accelerator', "(gpu_seconds_per_step.A100)"),
        'did you mean "NVIDIA A100"?',
    ),
    (
        "gpu_seconds_per_step: {NVIDIA A100: fast}",
        *('"fast" is not a number', "(gpu_seconds_per_step.NVIDIA A100)"),
        "write a number, 0 or more",
    ),
    ("cpu_speed: {c55: 1}", '"c55" is no instance family', "", 'did you mean "c5"?'),
    ("cpu_speed: {c5: 0}", "0 is out of range", "(cpu_speed.c5)", "write more than 0"),
    ("cpu_speed: fast", '"fast" is not a mapping', "", "{c5: 1, c6i: 1.2}"),
    ("parallel_efficiency: 1.5", "1.5 is more than all of a vCPU", "", "1 or less"),
    ("entry_point: 3", "3 is not text", "(entry_point)", 'write "3"'),
    ("datasets: a:b", '"a:b" is not a list of texts', "", "write [module:function]"),
    ("model: 3", "3 does not describe a model", "", "parameters, gradients, optimizer"),
    ("model: {parameters: 1, gradients: 1}", '"optimizer" is missing', "", "optimizer"),
    (
        "model: {parameters: 1.5, gradients: 1, optimizer: 1}",
        *("1.5 is not a number of bytes", "", "whole"),
    ),
    (f"model: {{{MODEL}, largest: 1}}", "is not a field", "", '"largest_block"?'),
    (f"model: {{{MODEL}, activations: {{bf61: {{sample: 1}}}}}}", "is not a field", "", '"bf16"?'),
    (
        f"model: {{{MODEL}, activations: {{bf16: 5}}}}",
        *("5 is not bytes of a sample", "", "{sample: 2e8}"),
    ),
    (
        f"model: {{{MODEL}, activations: {{bf16: {{sample: null}}}}}}",
        *("is not bytes of a sample", "", "{sample: 2e8}"),
    ),
    (f"model: {{{MODEL}, batch_norm: maybe}}", "is not true or false", "", "one of them"),
    (f"model: {{{MODEL}, precision: fp8}}", "is not a precision", "", "bf16"),
]


@pytest.mark.parametrize(("line", "what", "where", "fix"), PROBLEMS)
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
    assert f"w.yaml:5 {where}".rstrip() in problem.where
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
