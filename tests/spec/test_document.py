"""A job's YAML, there and back."""

from __future__ import annotations

import math
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.client.spec import (
    DataParallel,
    DataService,
    InstanceGroup,
    JobSpec,
    MetricDefinition,
    ModelParallel,
    TrainingInput,
)
from launcher.errors import SpecError
from launcher.shared import Lifetime, Ready, Role

HETEROGENEOUS = """\
entry_point: train.py
source_dir: .
instance_groups:
  - {instance_group_name: data_group, instance_type: ml.c5.2xlarge, instance_count: 2}
  - {instance_group_name: train_group, instance_type: ml.g4dn.xlarge, instance_count: 2}
distribution: {data_parallel: {processes_per_host: 1}}
data_service: {datasets: ["pipeline:train_set", "pipeline:test_set"]}
hyperparameters: {epochs: 3, lr: 0.001}
inputs:
  digits: {s3_data: "file://data", instance_groups: [data_group]}
  labels: s3://my-bucket/labels
metric_definitions: [{Name: test_accuracy, Regex: "test_accuracy=([0-9.]+)"}]
"""


def test_the_same_job_in_yaml_and_in_python() -> None:
    assert JobSpec.from_yaml(HETEROGENEOUS) == JobSpec(
        entry_point="train.py",
        source_dir=".",
        instance_groups=(
            InstanceGroup("data_group", "ml.c5.2xlarge", 2),
            InstanceGroup("train_group", "ml.g4dn.xlarge", 2),
        ),
        distribution=DataParallel(processes_per_host=1),
        data_service=DataService(datasets=("pipeline:train_set", "pipeline:test_set")),
        hyperparameters={"epochs": 3, "lr": 0.001},
        inputs={
            "digits": TrainingInput("file://data", instance_groups=("data_group",)),
            "labels": TrainingInput("s3://my-bucket/labels"),
        },
        metric_definitions=(MetricDefinition("test_accuracy", "test_accuracy=([0-9.]+)"),),
    )


def test_a_job_is_written_without_what_has_its_default() -> None:
    spec = JobSpec(entry_point="train.py", instance_type="local", distribution=DataParallel())

    assert spec.to_yaml() == (
        "entry_point: train.py\ninstance_type: local\ndistribution:\n  data_parallel: {}\n"
    )


@pytest.mark.parametrize(
    ("written", "distribution"),
    [
        pytest.param("data_parallel", DataParallel(), id="a word"),
        pytest.param("{data_parallel: }", DataParallel(), id="a key without a value"),
        pytest.param(
            "{data_parallel: {processes_per_host: 4}}",
            DataParallel(processes_per_host=4),
            id="with options",
        ),
        pytest.param("model_parallel", ModelParallel(), id="another word"),
        pytest.param(
            "{model_parallel: {partitions: 4, stages: {blocks.4: 1}, recomputed: [blocks.0]}}",
            ModelParallel(partitions=4, stages={"blocks.4": 1}, recomputed=("blocks.0",)),
            id="with stages",
        ),
        pytest.param(
            "{model_parallel: {partition_file: a/cuts.json, microbatches: 2}}",
            ModelParallel(partition_file="a/cuts.json", microbatches=2),
            id="with a file",
        ),
        pytest.param(
            "{model_parallel: {auto_partition: true, optimize: memory, memory_cap: 1073741824}}",
            ModelParallel(auto_partition=True, optimize="memory", memory_cap=2**30),
            id="to be found",
        ),
        pytest.param("null", None, id="none"),
    ],
)
def test_a_distribution_may_be_written_short(
    written: str, distribution: DataParallel | ModelParallel | None
) -> None:
    spec = JobSpec.from_yaml(f"entry_point: train.py\ndistribution: {written}\n")

    assert spec.distribution == distribution


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1e-3", 0.001),
        ("-2.5E+3", -2500.0),
        (".inf", math.inf),
        ("007", "007"),
        ("0x1F", 31),
        ("1:30", "1:30"),
        ("on", "on"),
        ("no", "no"),
        ("true", True),
        ("2024-01-31", "2024-01-31"),
        ("'1e-3'", "1e-3"),
        ("~", None),
        ("[1, [2, a]]", [1, [2, "a"]]),
        ("<<", "<<"),
    ],
)
def test_a_hyperparameter_means_what_it_looks_like(written: str, value: object) -> None:
    spec = JobSpec.from_yaml(f"entry_point: train.py\nhyperparameters: {{x: {written}}}\n")

    assert spec.hyperparameters == {"x": value}


def test_an_empty_section_is_an_absent_one() -> None:
    spec = JobSpec.from_yaml("entry_point: train.py\nhyperparameters:\n  # lr: 0.1\ntags:\n")

    assert spec == JobSpec(entry_point="train.py")


def test_an_anchor_may_be_used() -> None:
    text = "entry_point: train.py\nsubnets: &ids [a]\nsecurity_group_ids: *ids\n"
    assert JobSpec.from_yaml(text).security_group_ids == ("a",)


def test_paths_of_a_file_are_seen_from_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "job.yaml").write_text(
        HETEROGENEOUS.replace(
            "source_dir: .", "source_dir: ../code\noutput_path: file://out"
        ).replace(
            "data_parallel: {processes_per_host: 1}", "model_parallel: {partition_file: p.json}"
        )
    )

    spec = JobSpec.from_yaml(folder / "job.yaml")

    assert spec.source_dir == str(tmp_path / "code")
    assert spec.output_path == f"file://{folder}/out"
    assert spec.distribution == ModelParallel(partition_file=f"{folder}/p.json")
    assert spec.inputs["digits"].s3_data == f"file://{folder}/data"
    assert spec.inputs["labels"].s3_data == "s3://my-bucket/labels"
    assert JobSpec.from_yaml(spec.to_yaml()) == spec


def test_a_script_that_travels_alone_is_seen_from_the_files_folder(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("entry_point: train.py\ninstance_type: local\n")

    spec = JobSpec.from_yaml(str(tmp_path / "job.yaml"))

    assert spec.entry_point == str(tmp_path / "train.py")
    assert spec.script == "train.py"


@pytest.mark.parametrize(
    "value", [object(), {1}, b"x", date(2026, 1, 31)], ids=lambda value: type(value).__name__
)
def test_values_that_yaml_cannot_hold_are_reported_on_writing(value: object) -> None:
    with pytest.raises(SpecError, match="cannot be written as YAML"):
        JobSpec(entry_point="train.py", hyperparameters={"model": value}).to_yaml()


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        ("hyperparameters.epochs=1", "hyperparameters", {"epochs": 1, "lr": 0.001}),
        ("hyperparameters.lr=1e-4", "hyperparameters", {"epochs": 3, "lr": 0.0001}),
        ("hyperparameters.note=a=b", "hyperparameters", {"epochs": 3, "lr": 0.001, "note": "a=b"}),
        ("environment.LEVEL='2'", "environment", {"LEVEL": "2"}),
        ("environment.VERSION=2.10", "environment", {"VERSION": "2.10"}),
        ("framework_version=2.10", "framework_version", "2.10"),
        ("max_run=60", "max_run", 60),
        (
            "distribution.data_parallel.processes_per_host=2",
            "distribution",
            DataParallel(processes_per_host=2),
        ),
        ("data_service=", "data_service", None),
    ],
)
def test_a_change_goes_over_what_is_written(change: str, field: str, value: object) -> None:
    assert getattr(JobSpec.from_yaml(HETEROGENEOUS, [change]), field) == value


@pytest.mark.parametrize("group", ["data_group", "0"])
def test_a_change_names_a_group_or_its_position(group: str) -> None:
    spec = JobSpec.from_yaml(HETEROGENEOUS, [f"instance_groups.{group}.instance_count=3"])

    assert [g.instance_count for g in spec.instance_groups] == [3, 2]


def test_a_change_finds_names_with_dots() -> None:
    text = """
entry_point: train.py
instance_groups: [{instance_group_name: v1.train, instance_type: local}]
hyperparameters: {optim.lr: 0.1, model: {width: 8}}
inputs: {cats.v1: {s3_data: s3://bucket/cats}}
"""
    changes = (
        "hyperparameters.optim.lr=0.5",
        "hyperparameters.optim.steps=3",
        "hyperparameters.model.width=16",
        "inputs.cats.v1.s3_data=s3://bucket/dogs",
        "instance_groups.v1.train.instance_count=2",
    )
    spec = JobSpec.from_yaml(text, changes)

    assert spec.hyperparameters == {
        "optim.lr": 0.5,
        "model": {"width": 16},
        "optim": {"steps": 3},
    }
    assert [channel.s3_data for channel in spec.s3_inputs.values()] == ["s3://bucket/dogs"]
    assert spec.instance_groups[0].instance_count == 2


@pytest.mark.parametrize(
    ("change", "what", "fix"),
    [
        ("max_run", "not path=value", "hyperparameters.epochs=1"),
        ("instance_groups.cpu.instance_count=3", 'called "cpu"', "data_group, train_group"),
        ("source_dir.x=3", 'called "x"', "shorten"),
        ("max_rum=3", '"max_rum" is not a field', 'did you mean "max_run"'),
        ("hyperparameter.x=3", '"hyperparameter" is not', 'did you mean "hyperparameters"?'),
        ("epochs=3", '"epochs" is not a field', 'did you mean "hyperparameters.epochs"?'),
        ("instance_groups.0.instance_typ=a", "is not a field", 'did you mean "instance_type"?'),
        ("max_run=soon", '"soon" is not a whole number', "write a whole number"),
        ("hyperparameters.x=[1", "not YAML", "quote"),
    ],
)
def test_a_wrong_change_is_reported_as_written(change: str, what: str, fix: str) -> None:
    with pytest.raises(SpecError) as raised:
        JobSpec.from_yaml(HETEROGENEOUS, [change])
    (problem,) = raised.value.problems
    assert what in problem.what
    assert problem.where == f"--set {change}"
    assert fix in problem.fix


# There and back, for any job ---------------------------------------------------------------------

texts = st.text(st.characters(codec="utf-8"), max_size=20)
filled = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
numbers = st.integers(-(2**70), 2**70)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
text_tuples = st.lists(texts, max_size=3).map(tuple)
signs = st.builds(
    Ready,
    port=st.none() | numbers,
    file=st.none() | texts,
    seconds=st.none() | numbers,
    timeout=numbers,
)
groups = st.builds(
    InstanceGroup,
    texts,
    texts,
    numbers,
    st.none() | st.sampled_from(Role),
    command=text_tuples,
    ready=st.none() | signs,
    lifetime=st.none() | st.sampled_from(Lifetime),
)
channels = st.builds(
    TrainingInput,
    texts,
    distribution=texts,
    compression=st.none() | texts,
    instance_groups=text_tuples,
    shuffle_config=st.none() | numbers,
)
distributions = st.builds(
    DataParallel,
    processes_per_host=st.none() | st.integers(1, 16),
    hang_timeout=st.integers(0, 10**6),
    compression=st.none() | texts,
    sharded=st.booleans(),
) | st.builds(
    ModelParallel,
    partitions=numbers,
    schedule=texts,
    starts=text_tuples,
    stages=st.dictionaries(texts, numbers, max_size=3),
    precision=st.none() | texts,
    hang_timeout=st.integers(0, 10**6),
)
specs = st.builds(
    JobSpec,
    entry_point=texts,
    task=st.none() | texts,
    source_dir=st.none() | texts,
    instance_groups=st.lists(groups, max_size=3).map(tuple),
    instance_type=st.none() | texts,
    instance_count=st.none() | numbers,
    distribution=st.none() | distributions,
    data_service=st.none()
    | st.builds(
        DataService,
        datasets=text_tuples,
        workers_per_host=st.none() | numbers,
        checksums=st.booleans(),
        metrics_port=st.none() | numbers,
        engine=texts,
    ),
    hyperparameters=st.dictionaries(filled, json_values, max_size=4),
    inputs=st.dictionaries(filled, channels, max_size=3),
    output_path=st.none() | texts,
    max_run=numbers,
    environment=st.dictionaries(filled, texts, max_size=3),
    metric_definitions=st.lists(st.builds(MetricDefinition, texts, texts), max_size=2),
    subnets=text_tuples,
    enable_network_isolation=st.booleans(),
)


@pytest.mark.long
@settings(deadline=None)
@given(specs)
def test_any_job_comes_back_from_its_yaml(spec: JobSpec) -> None:
    text = spec.to_yaml()

    assert JobSpec.from_yaml(text) == spec
    assert JobSpec.from_yaml(text).to_yaml() == text


@pytest.mark.long
@settings(deadline=None)
@given(json_values)
def test_any_json_comes_back_with_its_types(value: object) -> None:
    spec = JobSpec(entry_point="train.py", hyperparameters={"x": value})

    assert repr(JobSpec.from_yaml(spec.to_yaml()).hyperparameters) == repr(spec.hyperparameters)
