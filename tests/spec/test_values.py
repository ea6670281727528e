"""The values of a specification, as they are made in Python."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from cut_model import partition

from launcher.client.spec import (
    DataParallel,
    DataService,
    InstanceGroup,
    JobSpec,
    MetricDefinition,
    ModelParallel,
    Retry,
    TrainingInput,
    examine,
)
from launcher.shared import HOMOGENEOUS_GROUP, ParallelPart, Ready, Role


def test_a_job_without_groups_is_one_group_that_trains() -> None:
    spec = JobSpec(entry_point="train.py", instance_type="ml.p3.8xlarge", instance_count=2)

    assert spec.groups == (InstanceGroup(HOMOGENEOUS_GROUP, "ml.p3.8xlarge", 2, Role.TRAIN),)


@pytest.mark.parametrize(
    ("types", "is_local"),
    [(["local"], True), (["local", "local_gpu"], True), (["ml.c5.xlarge"], False), ([], False)],
)
def test_a_job_is_local_when_all_its_machines_are(types: list[str], is_local: bool) -> None:
    groups = [InstanceGroup(f"g{i}", instance_type) for i, instance_type in enumerate(types)]

    assert JobSpec(entry_point="train.py", instance_groups=groups).is_local is is_local


def test_lists_short_forms_and_aws_dictionaries_are_kept_as_the_declared_types() -> None:
    group = InstanceGroup("data_group", "ml.c5.xlarge")
    spec = JobSpec(
        entry_point="train.py",
        instance_groups=[group],
        hyperparameters={"sizes": (1, 2)},
        inputs={
            "a": "s3://bucket/a",
            "b": TrainingInput("s3://bucket/b", instance_groups=[group]),
            "c": TrainingInput("s3://bucket/c", instance_groups="data_group"),
        },
        data_service=DataService(datasets=["m:f"]),
        metric_definitions=[{"Name": "loss", "Regex": "loss=(.*)"}],
    )

    assert spec.instance_groups == (group,)
    assert spec.hyperparameters == {"sizes": [1, 2]}
    assert spec.inputs["a"] == TrainingInput("s3://bucket/a")
    assert spec.inputs["b"].instance_groups == spec.inputs["c"].instance_groups == ("data_group",)
    assert spec.data_service == DataService(datasets=("m:f",))
    assert spec.metric_definitions == (MetricDefinition("loss", "loss=(.*)"),)


def test_numbers_of_numpy_are_kept_as_pythons() -> None:
    spec = JobSpec(
        entry_point="train.py",
        instance_groups=[
            InstanceGroup("train_group", "local", np.int64(2), role="train"),
            InstanceGroup("side", "local", command=["serve"], ready=Ready(port=np.uint16(50051))),
        ],
        hyperparameters={"epochs": np.int64(3), "rates": [np.float32(0.1), np.float64(0.2)]},
        inputs={"train": TrainingInput("s3://my-bucket/train", shuffle_config=np.int32(7))},
        distribution=DataParallel(accumulation=np.int64(4)),
        retry=Retry(attempts=np.int8(5)),
        checkpoint_s3_uri="s3://my-bucket/checkpoints",
        max_run=np.int64(3600),
    )

    assert json.loads(json.dumps(spec.hyperparameters)) == {"epochs": 3, "rates": [0.1, 0.2]}
    assert yaml.safe_load(spec.to_yaml()) == {
        "entry_point": "train.py",
        "instance_groups": [
            {
                "instance_group_name": "train_group",
                "instance_type": "local",
                "instance_count": 2,
                "role": "train",
            },
            {
                "instance_group_name": "side",
                "instance_type": "local",
                "command": ["serve"],
                "ready": {"port": 50051},
            },
        ],
        "hyperparameters": {"epochs": 3, "rates": [0.1, 0.2]},
        "inputs": {"train": {"s3_data": "s3://my-bucket/train", "shuffle_config": 7}},
        "distribution": {"data_parallel": {"accumulation": 4}},
        "retry": {"attempts": 5},
        "max_run": 3600,
        "checkpoint_s3_uri": "s3://my-bucket/checkpoints",
    }
    assert examine(spec) == ()


@pytest.mark.parametrize("count", [True, 2.0, np.array([2]), "2"])
def test_a_count_that_is_no_integer_is_kept_for_the_rules(count: object) -> None:
    spec = JobSpec(entry_point="train.py", instance_type="local", instance_count=count)

    assert spec.instance_count is count


@pytest.mark.parametrize(
    ("distribution", "instance_type", "processes"),
    [
        (DataParallel(), "ml.p4d.24xlarge", 8),
        (DataParallel(), "ml.trn1.32xlarge", 32),
        (DataParallel(), "ml.c5.xlarge", 1),
        (DataParallel(), "local", 1),
        (DataParallel(), "ml.unheard-of1.xlarge", 1),
        (DataParallel(processes_per_host=2), "ml.p4d.24xlarge", 2),
        (ModelParallel(), "ml.p4d.24xlarge", 8),
        (ModelParallel(processes_per_host=2), "ml.p4d.24xlarge", 2),
    ],
)
def test_processes_fill_the_accelerators(
    distribution: DataParallel | ModelParallel, instance_type: str, processes: int
) -> None:
    assert distribution.processes_on(instance_type) == processes


def test_a_distribution_of_names_takes_a_list_or_one_name() -> None:
    assert ModelParallel(starts=["a"], recomputed="b") == ModelParallel(
        starts=("a",), recomputed=("b",)
    )
    assert DataParallel(recomputed=["a"]).recomputed == ("a",)


def test_defaults_of_a_cut_model_reach_its_ranks() -> None:
    unsaid = ParallelPart(
        partitions=2, microbatches=4, schedule="interleaved", virtual_stages=1, optimize="speed"
    )
    assert ModelParallel().parallel == unsaid


def test_a_partition_sets_its_starts_and_the_open_fields() -> None:
    made = partition(schedule="simple", precision="bf16", recomputed=("0",))
    completed = ModelParallel(partition_file=Path("a/cuts.json"), microbatches=8).completed(made)
    assert completed == ModelParallel(
        partition_file="a/cuts.json",
        partitions=2,
        microbatches=8,
        virtual_stages=1,
        schedule="simple",
        precision="bf16",
        recomputed=("0",),
        starts=("2",),
    )


def test_the_specification_needs_neither_aws_nor_the_command_line_nor_yaml() -> None:
    program = (
        "import sys, launcher.client.spec, launcher.client.catalogue\n"
        "print(sorted({'boto3', 'botocore', 'yaml', 'click', 'rich'} & set(sys.modules)))"
    )

    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (answer.stdout.strip(), answer.stderr) == ("[]", "")
