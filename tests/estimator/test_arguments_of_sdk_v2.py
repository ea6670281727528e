"""Every training argument of SageMaker SDK v2 (2.257.0): what Launcher makes of it.

The lists are those of the constructors of EstimatorBase, Estimator, Framework, PyTorch and
TensorFlow, of fit and attach, and of TrainingInput and FileSystemInput.
"""

from __future__ import annotations

import inspect
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from launcher import (
    Estimator,
    FileSystemInput,
    PyTorch,
    ShuffleConfig,
    SpecError,
    TensorFlow,
    TrainingInput,
)
from launcher.client.estimator import constructor_arguments
from launcher.client.spec import NOT_TAKEN

IMAGE = "111122223333.dkr.ecr.us-east-1.amazonaws.com/image:1"
ROLE = "arn:aws:iam::111122223333:role/Training"
PLAN = "arn:aws:sagemaker:us-east-1:111122223333:training-plan/mine"
LAMBDA = "arn:aws:lambda:us-east-1:111122223333:function:login"
KEY = "alias/mine"
S3 = "s3://my-bucket/x"
VPC = {"subnets": ["subnet-1"], "security_group_ids": ["sg-1"]}
SPOT = {"use_spot_instances": True, "max_wait": 90_000, "checkpoint_s3_uri": S3}
REGISTRY = {"training_repository_access_mode": "Vpc", **VPC}
HOOK = {"S3OutputPath": S3, "CollectionConfigurations": [{"CollectionName": "losses"}]}
RULE = {"RuleConfigurationName": "a", "RuleEvaluatorImage": IMAGE}
PLACEMENT = {"EnableMultipleJobs": True}

#: argument: (where it stands in the request, what is given and stands there)
AS_GIVEN: dict[str, tuple[str, Any]] = {
    "instance_count": ("ResourceConfig.InstanceCount", 3),
    "volume_size": ("ResourceConfig.VolumeSizeInGB", 99),
    "volume_kms_key": ("ResourceConfig.VolumeKmsKeyId", KEY),
    "keep_alive_period_in_seconds": ("ResourceConfig.KeepAlivePeriodInSeconds", 600),
    "training_plan": ("ResourceConfig.TrainingPlanArn", PLAN),
    "instance_placement_config": ("ResourceConfig.InstancePlacementConfig", PLACEMENT),
    "max_run": ("StoppingCondition.MaxRuntimeInSeconds", 60),
    "max_retry_attempts": ("RetryStrategy.MaximumRetryAttempts", 2),
    "input_mode": ("AlgorithmSpecification.TrainingInputMode", "FastFile"),
    "output_kms_key": ("OutputDataConfig.KmsKeyId", KEY),
    "encrypt_inter_container_traffic": ("EnableInterContainerTrafficEncryption", True),
    "enable_network_isolation": ("EnableNetworkIsolation", True),
    "enable_session_tag_chaining": ("SessionChainingConfig.EnableSessionTagChaining", False),
    "enable_sagemaker_metrics": ("AlgorithmSpecification.EnableSageMakerMetricsTimeSeries", True),
    "environment": ("Environment", {"A": "1"}),
    "enable_infra_check": ("InfraCheckConfig.EnableInfraCheck", True),
    "enable_remote_debug": ("RemoteDebugConfig.EnableRemoteDebug", True),
    "debugger_hook_config": ("DebugHookConfig", HOOK),
    "rules": ("DebugRuleConfigurations", [RULE]),
    "tensorboard_output_config": ("TensorBoardOutputConfig", {"S3OutputPath": S3}),
}
#: argument: (how it is given, where it stands in the request, what stands there)
SENT: dict[str, tuple[dict[str, Any], str, Any]] = {
    **{name: ({name: value}, place, value) for name, (place, value) in AS_GIVEN.items()},
    "role": ({}, "RoleArn", ROLE),
    "image_uri": ({}, "AlgorithmSpecification.TrainingImage", IMAGE),
    "instance_type": ({}, "ResourceConfig.InstanceType", "ml.c5.xlarge"),
    "max_wait": (SPOT, "StoppingCondition.MaxWaitTimeInSeconds", 90_000),
    "use_spot_instances": (SPOT, "EnableManagedSpotTraining", True),
    "checkpoint_s3_uri": ({"checkpoint_s3_uri": S3}, "CheckpointConfig.S3Uri", f"{S3}/"),
    "checkpoint_local_path": (
        {"checkpoint_s3_uri": S3, "checkpoint_local_path": "/opt/ml/saved"},
        "CheckpointConfig.LocalPath",
        "/opt/ml/saved",
    ),
    "output_path": ({}, "OutputDataConfig.S3OutputPath", "s3://my-bucket/output"),
    "disable_output_compression": (
        {"disable_output_compression": True},
        "OutputDataConfig.CompressionType",
        "NONE",
    ),
    "tags": ({"tags": [{"Key": "a", "Value": "b"}]}, "Tags.0.Value", "b"),
    "subnets": (VPC, "VpcConfig.Subnets", ["subnet-1"]),
    "security_group_ids": (VPC, "VpcConfig.SecurityGroupIds", ["sg-1"]),
    "model_uri": (
        {"model_uri": S3},
        "InputDataConfig.0",
        {
            "ChannelName": "model",
            "DataSource": {
                "S3DataSource": {
                    "S3DataType": "S3Prefix",
                    "S3Uri": S3,
                    "S3DataDistributionType": "FullyReplicated",
                }
            },
            "ContentType": "application/x-sagemaker-model",
            "InputMode": "File",
        },
    ),
    "model_channel_name": (
        {"model_uri": S3, "model_channel_name": "start"},
        "InputDataConfig.0.ChannelName",
        "start",
    ),
    "metric_definitions": (
        {"metric_definitions": [{"Name": "loss", "Regex": "(x)"}]},
        "AlgorithmSpecification.MetricDefinitions.0",
        {"Name": "loss", "Regex": "(x)"},
    ),
    "hyperparameters": ({"hyperparameters": {"a": "x"}}, "HyperParameters.a", '"x"'),
    "code_location": (
        {"code_location": "s3://my-bucket/code"},
        "InputDataConfig.-1.DataSource.S3DataSource.S3Uri",
        "s3://my-bucket/code/job-1/code/",
    ),
    "container_entry_point": (
        {"entry_point": None, "container_entry_point": ["sh", "go"]},
        "AlgorithmSpecification.ContainerEntrypoint",
        ["sh", "go"],
    ),
    "container_arguments": (
        {"entry_point": None, "container_arguments": ["--fast"]},
        "AlgorithmSpecification.ContainerArguments",
        ["--fast"],
    ),
    "training_repository_access_mode": (
        REGISTRY,
        "AlgorithmSpecification.TrainingImageConfig",
        {"TrainingRepositoryAccessMode": "Vpc"},
    ),
    "training_repository_credentials_provider_arn": (
        {**REGISTRY, "training_repository_credentials_provider_arn": LAMBDA},
        "AlgorithmSpecification.TrainingImageConfig.TrainingRepositoryAuthConfig",
        {"TrainingRepositoryCredentialsProviderArn": LAMBDA},
    ),
    "profiler_config": (
        {"profiler_config": {"ProfilingIntervalInMilliseconds": 500}},
        "ProfilerConfig",
        {"S3OutputPath": "s3://my-bucket/output", "ProfilingIntervalInMilliseconds": 500},
    ),
    "disable_profiler": (
        {"disable_profiler": True},
        "ProfilerConfig",
        {"DisableProfiler": True},
    ),
    "model_dir": ({"model_dir": S3}, "HyperParameters.model_dir", f'"{S3}"'),
    "base_job_name": ({}, "TrainingJobName", "job-1"),
}
#: Supported, and held elsewhere: what is not one field of the request.
ELSEWHERE = {
    "entry_point": "the script that launch.py starts; tests/request",
    "source_dir": "packed into the bundle; tests/request/test_source.py",
    "dependencies": "packed beside it; tests/request/test_source.py",
    "instance_groups": "tests/request/test_builder.py",
    "distribution": "tests/estimator/test_estimator.py",
    "sagemaker_session": "tests/estimator/test_estimator.py",
    "framework_version": "which image; an image_uri beside it is the image",
    "py_version": "which image; an image_uri beside it is the image",
    "container_log_level": "the level of AWS's toolkit, in jobs that start with it",
    "training_job_name": "of attach; tests/estimator/test_estimator.py",
    "inputs": "of fit; tests/estimator/test_estimator.py",
    "wait": "of fit; tests/estimator/test_estimator.py",
    "logs": "of fit; tests/estimator/test_estimator.py",
    "job_name": "of fit; tests/estimator/test_estimator.py",
    "experiment_config": "of fit; tests/estimator/test_estimator.py",
}
CONSTRUCTORS = """
    role instance_count instance_type keep_alive_period_in_seconds volume_size volume_kms_key
    max_run input_mode output_path output_kms_key base_job_name sagemaker_session tags subnets
    security_group_ids model_uri model_channel_name metric_definitions
    encrypt_inter_container_traffic use_spot_instances max_wait checkpoint_s3_uri
    checkpoint_local_path rules debugger_hook_config tensorboard_output_config
    enable_sagemaker_metrics enable_network_isolation profiler_config disable_profiler environment
    max_retry_attempts source_dir git_config hyperparameters container_log_level code_location
    entry_point dependencies instance_groups training_repository_access_mode
    training_repository_credentials_provider_arn enable_infra_check container_entry_point
    container_arguments disable_output_compression enable_remote_debug enable_session_tag_chaining
    training_plan instance_placement_config image_uri framework_version py_version distribution
    compiler_config training_recipe recipe_overrides model_dir
"""
FIT = {"inputs", "wait", "logs", "job_name", "experiment_config"}


def test_every_argument_is_taken_or_refused_with_a_reason() -> None:
    constructors = CONSTRUCTORS.split()
    elsewhere = [name for name in ELSEWHERE if name in constructors]
    old = ["capacity_retry"]  # a word of Launcher's own
    assert sorted(constructors + old) == sorted([*SENT, *elsewhere, *NOT_TAKEN])
    assert inspect.signature(Estimator.fit).parameters.keys() >= FIT


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def request(**arguments: Any) -> dict[str, Any]:
    given = {
        "entry_point": "train.py",
        "image_uri": IMAGE,
        "role": ROLE,
        "instance_count": 1,
        "instance_type": "ml.c5.xlarge",
        "output_path": "s3://my-bucket/output",
        **arguments,
    }
    made = TensorFlow(**given) if "model_dir" in given else Estimator(**given)
    return made.request(job_name="job-1")


def at(value: Any, place: str) -> Any:
    for name in place.split("."):
        value = value[int(name) if isinstance(value, list) else name]
    return value


@pytest.mark.parametrize("argument", SENT)
def test_an_argument_stands_in_the_request(folder, argument: str) -> None:
    given, place, expected = SENT[argument]
    assert at(request(**given), place) == expected


def test_an_algorithm_stands_in_the_place_of_the_image(folder) -> None:
    algorithm = {"algorithm_arn": "arn:aws:sagemaker:us-east-1:111122223333:algorithm/mine"}
    made = request(image_uri=None, entry_point=None, **algorithm)
    assert made["AlgorithmSpecification"] == {
        "AlgorithmName": algorithm["algorithm_arn"],
        "TrainingInputMode": "File",
    }
    assert "InputDataConfig" not in made


@pytest.mark.parametrize("argument", NOT_TAKEN)
def test_what_is_not_taken_says_what_to_do(folder, argument: str) -> None:
    with pytest.raises(SpecError, match=f"Launcher takes no {argument}"):
        request(**{argument: {"repo": "x"}})
    assert request(**{argument: None}) == request()


def test_nothing_is_sent_that_nobody_asked_for(folder) -> None:
    plain = request(debugger_hook_config=False, disable_profiler=False, rules=[])
    assert plain == request()
    assert plain.keys() == {
        "TrainingJobName",
        "AlgorithmSpecification",
        "RoleArn",
        "InputDataConfig",
        "OutputDataConfig",
        "ResourceConfig",
        "StoppingCondition",
        "HyperParameters",
        "Environment",
    }


def test_objects_of_the_sagemaker_package_are_taken(folder) -> None:
    """By the methods with which v2's own code turns them into parts of a request."""
    made = request(
        debugger_hook_config=SimpleNamespace(_to_request_dict=lambda: {"S3OutputPath": None}),
        tensorboard_output_config=SimpleNamespace(_to_request_dict=lambda: {"S3OutputPath": S3}),
        rules=[
            SimpleNamespace(to_debugger_rule_config_dict=lambda: RULE),
            SimpleNamespace(to_profiler_rule_config_dict=lambda: {**RULE, "LocalPath": "/x"}),
        ],
    )
    output = {"S3OutputPath": "s3://my-bucket/output"}
    assert made["DebugHookConfig"] == output
    assert made["TensorBoardOutputConfig"] == {"S3OutputPath": S3}
    assert made["DebugRuleConfigurations"] == [RULE]
    assert made["ProfilerRuleConfigurations"] == [{**RULE, "LocalPath": "/x"}]
    assert made["ProfilerConfig"] == output


OTHERS = SimpleNamespace(entry_point="train.py", fit=lambda: None)


@pytest.mark.parametrize(
    "make",
    [
        lambda: PyTorch(OTHERS),
        lambda: TensorFlow(entry_point=OTHERS),
        lambda: Estimator(IMAGE, entry_point=b"train.py"),
        lambda: PyTorch("train.py", source_dir=OTHERS),
        lambda: PyTorch("train.py", dependencies=["lib", OTHERS]),
        lambda: setattr(PyTorch("train.py"), "entry_point", OTHERS),
    ],
    ids=["PyTorch", "TensorFlow", "bytes", "source_dir", "dependencies", "attribute"],
)
def test_an_object_is_no_path_of_the_code(make) -> None:
    """Not even an estimator, whose repr would be the name of a file."""
    with pytest.raises(SpecError) as caught:
        make()
    assert "is not a path" in caught.value.problems[0].what


def test_a_tag_is_given_once() -> None:
    """AWS refuses a request with the same key twice."""
    tags = [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}, {"Key": "a", "Value": "1"}]
    with pytest.raises(SpecError) as caught:
        PyTorch("train.py", tags=tags)
    assert [(each.where, each.what) for each in caught.value.problems] == [
        ("tags", 'the tag "a" is given 2 times')
    ]
    assert PyTorch("train.py", tags=tags[:2]).tags == {"a": "1", "b": "2"}


def test_hyperparameters_can_be_set_later(folder) -> None:
    made = Estimator(IMAGE, entry_point="train.py", hyperparameters={"a": 1, "b": 2})
    made.set_hyperparameters(b=3, c="x")
    assert made.hyperparameters() == made.spec.hyperparameters == {"a": 1, "b": 3, "c": "x"}


# Inputs ----------------------------------------------------------------------------------------

#: Not taken: hub_access_config and model_access_config, which are of JumpStart's models.
INPUTS = {
    TrainingInput: "s3_data distribution compression content_type record_wrapping s3_data_type "
    "instance_groups input_mode attribute_names target_attribute_name shuffle_config",
    FileSystemInput: "file_system_id file_system_type directory_path file_system_access_mode "
    "content_type",
}


@pytest.mark.parametrize("kind", INPUTS)
def test_inputs_have_the_arguments_of_v2_in_its_order(kind: Any) -> None:
    assert list(inspect.signature(kind).parameters) == INPUTS[kind].split()


def test_a_shuffle_config_is_kept_as_its_seed() -> None:
    for given in (ShuffleConfig(7), SimpleNamespace(seed=7), 7):
        assert TrainingInput(S3, shuffle_config=given).shuffle_config == 7


TYPED = {"text": "reg:squarederror", "number": 50, "flag": True, "list": [1, "a"]}


def test_hyperparameters_of_a_program_are_plain_texts() -> None:
    """As SDK v2's Estimator without a script, whose image decodes nothing."""
    machines = {"instance_type": "ml.c5.xlarge", "instance_count": 1}
    places = {"role": ROLE, "output_path": "s3://my-bucket/output"}
    program = Estimator(IMAGE, hyperparameters=TYPED, **machines, **places).request("job-1")
    assert program["HyperParameters"] == {
        "text": "reg:squarederror",
        "number": "50",
        "flag": "True",
        "list": "[1, 'a']",
    }
    described = constructor_arguments(program, None)["hyperparameters"]
    again = Estimator(IMAGE, hyperparameters=described, **machines, **places).request("job-1")
    assert again == program


def test_hyperparameters_of_a_program_are_as_long_as_their_texts() -> None:
    """Of 2,500 characters at most, also where JSON would escape each of them."""
    machines = {"instance_type": "ml.c5.xlarge", "instance_count": 1}
    places = {"role": ROLE, "output_path": "s3://my-bucket/output"}
    given = {"prompt": "é" * 2500, "rounds": numpy.int64(50), "eta": Decimal("0.1")}
    program = Estimator(IMAGE, hyperparameters=given, **machines, **places).request("job-1")
    assert program["HyperParameters"] == {"prompt": "é" * 2500, "rounds": "50", "eta": "0.1"}
    longer = Estimator(IMAGE, hyperparameters={"prompt": "é" * 2501}, **machines, **places)
    with pytest.raises(SpecError, match="hyperparameters 'prompt' has 2501 characters"):
        longer.request("job-1")


def test_metrics_over_time_are_kept_for_images_that_report_them(folder) -> None:
    path = "EnableSageMakerMetricsTimeSeries"
    new = request(framework="pytorch", framework_version="2.2")
    assert new["AlgorithmSpecification"][path] is True
    old = request(framework="pytorch", framework_version="1.2")
    assert path not in old["AlgorithmSpecification"]
    off = request(framework="tensorflow", framework_version="2.14", enable_sagemaker_metrics=False)
    assert off["AlgorithmSpecification"][path] is False


def test_the_mode_of_a_single_input_is_the_jobs(folder) -> None:
    made = Estimator(
        IMAGE,
        ROLE,
        1,
        "ml.c5.xlarge",
        entry_point="train.py",
        output_path="s3://my-bucket/output",
    )
    mode = "FastFile"
    lone, named = (TrainingInput(S3, input_mode=mode), {"a": TrainingInput(S3, input_mode=mode)})
    algorithm = made.request("job-1", lone)["AlgorithmSpecification"]
    assert algorithm["TrainingInputMode"] == mode
    assert made.request("job-1", named)["AlgorithmSpecification"]["TrainingInputMode"] == "File"
