"""An estimator made of a job's description asks for the same job again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cut_model import partition

from launcher import (
    DataParallel,
    DataService,
    Estimator,
    InstanceGroup,
    Jax,
    JobSpec,
    ModelParallel,
    Mpi,
    MultiWorkerMirrored,
    ParameterServer,
)
from launcher.client.endpoint import with_aws_defaults
from launcher.client.estimator import constructor_arguments, read_channel
from launcher.client.request import JobLocation, build_document, build_request
from launcher.client.spec import Distribution, infer_roles
from launcher.shared import Role

GOLDEN = Path(__file__).parents[1] / "request" / "golden"
#: All but those whose hyperparameters are AWS's toolkit's, and those of fields without names.
NAMES = sorted(
    path.stem
    for path in GOLDEN.glob("*.yaml")
    if not path.stem.startswith("sm") and path.stem not in ("extra_request", "serverless")
)


@pytest.mark.parametrize("name", NAMES)
def test_a_description_gives_every_argument_back(name: str) -> None:
    request = json.loads((GOLDEN / f"{name}.json").read_text())
    asked = JobSpec.from_yaml(GOLDEN / f"{name}.yaml")
    document = build_document(asked) if asked.starts_launcher else None

    made = Estimator(**constructor_arguments(request, document)).spec
    model = made.model_uri and made.model_channel_name
    inputs = {
        channel["ChannelName"]: read_channel(channel)
        for channel in request["InputDataConfig"]
        if channel["ChannelName"] not in ("code", model)
    }

    algorithm = request["AlgorithmSpecification"]
    placement = JobLocation(
        job_name=request["TrainingJobName"],
        role_arn=request["RoleArn"],
        image_uri=algorithm.get("TrainingImage") or algorithm["AlgorithmName"],
        code_uri="s3://my-bucket/code/job-1/code/",
        output_uri=request["OutputDataConfig"]["S3OutputPath"],
        checkpoint_uri=made.checkpoint_s3_uri,
        token="00112233445566778899aabbccddeeff",
        region="us-east-1",
    )
    # no description has the source, from which the script's place below it counts
    again = made.replace(inputs=inputs, source_dir=asked.source_dir)
    assert build_request(again, placement) == request


@pytest.mark.parametrize(
    "distribution",
    [
        Mpi(processes_per_host=2, custom_options=("-x", "A")),
        DataParallel(processes_per_host=2),
        DataParallel(processes_per_host=2, sharded=True, accumulation=3, precision="bf16"),
        DataParallel(processes_per_host=2, compression="fp16", recomputed=("blocks.0",)),
        MultiWorkerMirrored(),
        ParameterServer(),
        ParameterServer(server_group="ps"),
        Jax(),
        ModelParallel(processes_per_host=2),
        ModelParallel(processes_per_host=2, starts=("blocks.4",), hang_timeout=60),
        ModelParallel(processes_per_host=4, shard_degree=2),
        ModelParallel(processes_per_host=2, auto_partition=True, optimize="memory"),
        ModelParallel(processes_per_host=2, auto_partition=True, memory_cap=2**30),
        ModelParallel(processes_per_host=2, stages={"a": 0}, default_stage=1, placement="spread"),
    ],
    ids=str,
)
def test_the_document_gives_the_distribution_back(
    distribution: Distribution,
) -> None:
    spec = JobSpec(entry_point="train.py", instance_type="local", distribution=distribution)
    assert constructor_arguments({}, build_document(spec))["distribution"] == distribution


def test_of_a_partitions_file_the_document_gives_back_what_it_says() -> None:
    distribution = ModelParallel(processes_per_host=2, partition_file="cuts.json")
    spec = JobSpec(entry_point="train.py", instance_type="local", distribution=distribution)
    given = constructor_arguments({}, build_document(spec, partition(precision="bf16")))
    assert given["distribution"] == ModelParallel(
        processes_per_host=2, microbatches=2, starts=("2",), precision="bf16"
    )


def test_the_document_gives_the_task_back() -> None:
    spec = JobSpec(task="task:make", instance_type="local", distribution=DataParallel())
    given = constructor_arguments({}, build_document(spec))
    assert (given["task"], given["entry_point"]) == ("task:make", "")


def test_hyperparameters_of_other_clients_come_as_they_are() -> None:
    """SDK v3 sends bare texts, and the toolkit's own names are no hyperparameters of a script."""
    request = json.loads((GOLDEN / "homogeneous.json").read_text())
    request["HyperParameters"] = {"a": "text", "b": "1", "sagemaker_program": '"train.py"'}
    assert constructor_arguments(request, None)["hyperparameters"] == {"a": "text", "b": 1}


def test_values_that_only_a_description_has_change_no_argument() -> None:
    request = json.loads((GOLDEN / "homogeneous.json").read_text())
    described = with_aws_defaults(request)
    assert described["OutputDataConfig"]["KmsKeyId"] == ""
    given, expected = (constructor_arguments(each, None) for each in (described, request))
    for name in ("output_kms_key", "disable_output_compression", "max_run"):
        assert given[name] == expected[name]


@pytest.mark.parametrize(
    "roles",
    [
        {"first": Role.TRAIN, "second": Role.DATA},
        {"cpu": Role.TRAIN, "gpu": Role.DATA},
        {"first": Role.TRAIN, "second": Role.SCRIPT},
    ],
    ids=str,
)
def test_groups_get_back_the_roles_that_only_their_author_knew(roles: dict[str, Role]) -> None:
    groups = [InstanceGroup(name, "ml.c5.xlarge", role=role) for name, role in roles.items()]
    service = DataService() if Role.DATA in roles.values() else None
    spec = JobSpec(entry_point="train.py", instance_groups=groups, data_service=service)
    description = {
        "ResourceConfig": {
            "InstanceGroups": [
                {
                    "InstanceGroupName": group.instance_group_name,
                    "InstanceType": group.instance_type,
                    "InstanceCount": 1,
                }
                for group in groups
            ]
        }
    }
    made = Estimator(**constructor_arguments(description, build_document(spec))).spec
    assert infer_roles(made.groups, service is not None) == roles
    assert build_document(made).roles == roles


@pytest.mark.parametrize("max_run", [60, 24 * 3600])
@pytest.mark.parametrize("seconds", [30, 3600, 7200])
def test_the_document_gives_back_how_long_hosts_wait(seconds: int, max_run: int) -> None:
    service = DataService(start_timeout=seconds)
    spec = JobSpec(
        entry_point="train.py", instance_type="local", data_service=service, max_run=max_run
    )
    description = {"StoppingCondition": {"MaxRuntimeInSeconds": max_run}}
    given = constructor_arguments(description, build_document(spec))
    again = spec.replace(data_service=given["data_service"])
    assert build_document(again).start_timeout == build_document(spec).start_timeout
    if seconds == 3600:
        assert given["data_service"] == service
