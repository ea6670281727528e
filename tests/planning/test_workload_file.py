"""Workload files: what they may say, and every problem with its line and fix."""

from __future__ import annotations

import os
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
workers_per_rank: 0
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
        workers_per_rank=0,
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


PROBLEMS = """\
batch_size: 0
batch_size: many
batch_size: 1000000000000000000000000000000000000000000000000000000000000
bytes_per_batch: 1e308
gpu_seconds_per_step: {NVIDIA A10G: 0}
bytes_per_batch: -1
bytes_per_batch: .inf
epochs: true
epoch: 3
batchsize: 64
colour: red
cpu_seconds_per_sample: {low: 1}
cpu_seconds_per_sample: {mean: 1, low: 2}
cpu_seconds_per_sample: {mean: 1, median: 2}
gpu_seconds_per_step: 0.05
gpu_seconds_per_step: {A100: 0.05}
gpu_seconds_per_step: {NVIDIA A100: fast}
cpu_speed: {c55: 1}
cpu_speed: {c5: 0}
cpu_speed: fast
parallel_efficiency: 1.5
entry_point: 3
datasets: a:b
model: 3
model: {parameters: 1, gradients: 1}
model: {parameters: 1.5, gradients: 1, optimizer: 1}
model: {parameters: 8, gradients: 4, optimizer: 16, largest: 1}
model: {parameters: 8, gradients: 4, optimizer: 16, activations: {bf61: {sample: 1}}}
model: {parameters: 8, gradients: 4, optimizer: 16, activations: {bf16: 5}}
model: {parameters: 8, gradients: 4, optimizer: 16, activations: {bf16: {sample: null}}}
model: {parameters: 8, gradients: 4, optimizer: 16, batch_norm: maybe}
model: {parameters: 8, gradients: 4, optimizer: 16, precision: fp8}
"""


def test_each_problem_has_its_line_and_its_fix_as_in_the_golden_file(read, tmp_path) -> None:
    """UPDATE_GOLDEN=1 renews it: read the difference."""
    file = Path(__file__).parent / "golden" / "workload_problems.txt"
    said = []
    for line in PROBLEMS.splitlines():
        field = line.partition(":")[0].replace("batchsize", "batch_size")
        kept = [each for each in SMALL.splitlines() if not each.startswith(field + ":")]
        filler = ["# filler"] * (4 - len(kept))
        with pytest.raises(SpecError) as caught:
            read("\n".join([*kept, *filler, line, ""]))
        said.append(f"{line}\n{caught.value}".replace(f"{tmp_path}/", ""))
    text = "\n\n".join(said) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()


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
