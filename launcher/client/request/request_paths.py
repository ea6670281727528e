"""The path of each field of a job in the CreateTrainingJob request, written once.

The builder fills these paths, and an Estimator's arguments are read back from them. A field that
the builder does not make from several others is a plain copy: it needs its line here and no more.

Source of the paths: the CreateTrainingJob page of the SageMaker API reference.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from launcher.client.spec import JobSpec
from launcher.errors import FieldPath

_IMAGE_CONFIG = "AlgorithmSpecification.TrainingImageConfig"

#: In the order of the request.
REQUEST_PATHS: Mapping[str, str] = {
    "image_uri": "AlgorithmSpecification.TrainingImage",
    "algorithm_arn": "AlgorithmSpecification.AlgorithmName",
    "input_mode": "AlgorithmSpecification.TrainingInputMode",
    "container_entry_point": "AlgorithmSpecification.ContainerEntrypoint",
    "container_arguments": "AlgorithmSpecification.ContainerArguments",
    "metric_definitions": "AlgorithmSpecification.MetricDefinitions",
    "enable_sagemaker_metrics": "AlgorithmSpecification.EnableSageMakerMetricsTimeSeries",
    "training_repository_access_mode": f"{_IMAGE_CONFIG}.TrainingRepositoryAccessMode",
    "training_repository_credentials_provider_arn": f"{_IMAGE_CONFIG}.TrainingRepositoryAuthConfig"
    ".TrainingRepositoryCredentialsProviderArn",
    "role": "RoleArn",
    "inputs": "InputDataConfig",
    "output_path": "OutputDataConfig.S3OutputPath",
    "output_kms_key": "OutputDataConfig.KmsKeyId",
    "disable_output_compression": "OutputDataConfig.CompressionType",
    "instance_type": "ResourceConfig.InstanceType",
    "instance_count": "ResourceConfig.InstanceCount",
    "instance_groups": "ResourceConfig.InstanceGroups",
    "volume_size": "ResourceConfig.VolumeSizeInGB",
    "volume_kms_key": "ResourceConfig.VolumeKmsKeyId",
    "keep_alive_period_in_seconds": "ResourceConfig.KeepAlivePeriodInSeconds",
    "training_plan": "ResourceConfig.TrainingPlanArn",
    "instance_placement_config": "ResourceConfig.InstancePlacementConfig",
    "max_run": "StoppingCondition.MaxRuntimeInSeconds",
    "max_wait": "StoppingCondition.MaxWaitTimeInSeconds",
    "hyperparameters": "HyperParameters",
    "environment": "Environment",
    "use_spot_instances": "EnableManagedSpotTraining",
    "checkpoint_s3_uri": "CheckpointConfig.S3Uri",
    "checkpoint_local_path": "CheckpointConfig.LocalPath",
    "max_retry_attempts": "RetryStrategy.MaximumRetryAttempts",
    "tags": "Tags",
    "subnets": "VpcConfig.Subnets",
    "security_group_ids": "VpcConfig.SecurityGroupIds",
    "encrypt_inter_container_traffic": "EnableInterContainerTrafficEncryption",
    "enable_network_isolation": "EnableNetworkIsolation",
    "enable_session_tag_chaining": "SessionChainingConfig.EnableSessionTagChaining",
    "experiment_config": "ExperimentConfig",
    "tensorboard_output_config": "TensorBoardOutputConfig",
    "debugger_hook_config": "DebugHookConfig",
    "rules": "DebugRuleConfigurations",
    "profiler_config": "ProfilerConfig",
    "profiler_rules": "ProfilerRuleConfigurations",
    "enable_remote_debug": "RemoteDebugConfig.EnableRemoteDebug",
    "enable_infra_check": "InfraCheckConfig.EnableInfraCheck",
}

#: Fields without a path of their own, with the place where they take effect instead.
ELSEWHERE: Mapping[str, str] = {
    "entry_point": "the job document",
    "task": "the job document",
    "source_dir": "the bundle",
    "dependencies": "the bundle",
    "distribution": "the job document, or the toolkit's hyperparameters",
    "data_service": "the job document",
    "capacity_retry": "the sender, when AWS has no capacity",
    "tracking": "whoever follows the job",
    "framework": "the choice of the image",
    "framework_version": "the choice of the image",
    "py_version": "the choice of the image",
    "transformers_version": "the choice of the image",
    "container_log_level": "the toolkit's hyperparameters",
    "model_uri": "a channel of the inputs",
    "model_channel_name": "a channel of the inputs",
    "code_location": "the URI of the code channel",
    "allow_restart_from_scratch": "the rules",
    "base_job_name": "the job's name",
    "disable_profiler": "the profiler_config",
    "secrets": "the Environment: the source of each, not its value",
    "extra_request": "wherever its keys say",
}


def fill_paths(spec: JobSpec, made: Mapping[str, object]) -> dict[str, Any]:
    """Return the request's parts: the fields that the builder has made, and copies of the others.

    Values that are absent (None, an empty sequence, or False by default) are omitted.
    """
    defaults = {part.name: part.default for part in dataclasses.fields(spec)}
    request: dict[str, Any] = {}
    for name, path in REQUEST_PATHS.items():
        value = made[name] if name in made else _copy(getattr(spec, name), defaults[name])
        if value is not None and value != []:
            _put(request, path.split("."), value)
    return request


def read_paths(description: Mapping[str, object]) -> dict[str, Any]:
    """Return the value at each field's path in a request or a job's description, where it has one.

    The inverse of `fill_paths` for copies; fields that the builder makes need more.
    """
    found = {name: read_path(description, path) for name, path in REQUEST_PATHS.items()}
    return {name: value for name, value in found.items() if value is not None}


def read_path(description: Any, path: str) -> Any:
    """Return the value at a path, or None."""
    for name in path.split("."):
        description = (description or {}).get(name)
    return description


def field_of(spec: JobSpec, request: Mapping[str, Any], path: FieldPath) -> FieldPath | None:
    """Return the field of a job that a part of its request comes from, None where it has none.

    path: of the part, as ("InputDataConfig", 0). A channel is the input of its name, or the model.
    """
    if path[:1] == ("InputDataConfig",) and len(path) > 1:
        name = request["InputDataConfig"][path[1]]["ChannelName"]
        if name in spec.inputs:
            return ("inputs", name)
        is_model = spec.model_uri is not None and name == spec.model_channel_name
        return ("model_uri",) if is_model else None
    if path == ("HyperParameters", "sagemaker_submit_directory"):
        return ("source_dir",)
    parts = [str(part) for part in path]
    for name, place in REQUEST_PATHS.items():
        if parts[: len(names := place.split("."))] == names:
            return (name, *path[len(names) :])
    return None


def _copy(value: object, default: object) -> Any:
    if value is False and default is False:
        return None
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, tuple) else value


def _put(request: dict[str, Any], names: Iterable[str], value: Any) -> None:
    *around, last = names
    for name in around:
        request = request.setdefault(name, {})
    request[last] = value
