"""A model in a workload's file: its fields, and every problem with its line and fix."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from launcher.client.planning import ModelFigures, Workload, model_fields
from launcher.errors import SpecError
from launcher.shared import Activations, Footprint

SMALL = """\
batch_size: 64
cpu_seconds_per_sample: 0.01
bytes_per_batch: 1000000
gpu_seconds_per_step: {NVIDIA A10G: 0.05}
"""
FIGURES = ModelFigures(
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
    def reading(model: str) -> Workload:
        (tmp_path / "w.yaml").write_text(f"{SMALL}model:{model}\n")
        return Workload.from_yaml(tmp_path / "w.yaml")

    return reading


def test_what_is_measured_is_read_again(read) -> None:
    text = yaml.safe_dump(model_fields(FIGURES), default_flow_style=True, width=1000)

    assert read(f" {text}").model == FIGURES


def test_three_numbers_are_enough(read) -> None:
    """Without its blocks, shards gather the whole model."""
    model = read(" {parameters: 4.0e+9, gradients: 4000000000, optimizer: 8.0e+9}").model

    assert model.footprint == Footprint(
        parameters=4 * 10**9, gradients=4 * 10**9, states=8 * 10**9, rest=4 * 10**9
    )
    assert (model.blocks, model.batch_norm, model.footprint.activations) == (None, None, {})


def test_a_number_that_is_null_is_absent(read) -> None:
    needed = "parameters: 8, gradients: 4, optimizer: 16"
    more = (
        "largest_block: null, outside_blocks: null, activations: {full: {sample: 2, fixed: null}}"
    )

    assert read(f" {{{needed}, {more}}}").model.footprint == Footprint(
        parameters=8,
        gradients=4,
        states=16,
        rest=8,
        activations={(False, False): Activations(sample=2)},
    )


@pytest.mark.parametrize(
    ("model", "what", "fix"),
    [
        (" 3", "3 does not describe a model", "parameters, gradients, optimizer"),
        (" {parameters: 1, gradients: 1}", '"optimizer" is missing', "optimizer"),
        (" {parameters: 1.5, gradients: 1, optimizer: 1}", "1.5 is not a number of bytes", "whole"),
        (" {parameter: 1, gradients: 1, optimizer: 1}", "is not a field", '"parameters"?'),
        (
            " {parameters: 1, gradients: 1, optimizer: 1, activations: {bf61: {sample: 1}}}",
            "is not a field",
            '"bf16"?',
        ),
        (
            " {parameters: 1, gradients: 1, optimizer: 1, activations: {bf16: 5}}",
            "5 is not bytes of a sample",
            "{sample: 2e8}",
        ),
        (
            " {parameters: 1, gradients: 1, optimizer: 1, activations: {bf16: {sample: null}}}",
            "is not bytes of a sample",
            "{sample: 2e8}",
        ),
        (
            " {parameters: 1, gradients: 1, optimizer: 1, batch_norm: maybe}",
            "is not true or false",
            "one of them",
        ),
        (
            " {parameters: 1, gradients: 1, optimizer: 1, precision: fp8}",
            "is not a precision",
            "bf16",
        ),
    ],
)
def test_each_problem_has_its_place_and_fix(read, model: str, what: str, fix: str) -> None:
    with pytest.raises(SpecError) as raised:
        read(model)

    (problem,) = (each for each in raised.value.problems if what in each.what)
    assert fix in problem.fix
    assert "w.yaml:5" in problem.where
