"""Reconstruction of an Estimator's arguments from the description of a job that it ran."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from launcher.client.request.channel_routing import MODEL_CONTENT
from launcher.client.spec import DataService, InstanceGroup
from launcher.client.spec.distributions.registry import distribution_from
from launcher.shared import (
    CODE_CHANNEL,
    CONTAINER_ENTRYPOINT,
    TOKEN_VARIABLE,
    TOOLKIT_PREFIX,
    DataPart,
    JobDocument,
)

#: The path of each option in a description.
_PLACES = {
    "volume_size": "ResourceConfig.VolumeSizeInGB",
    "volume_kms_key": "ResourceConfig.VolumeKmsKeyId",
    "keep_alive_period_in_seconds": "ResourceConfig.KeepAlivePeriodInSeconds",
    "training_plan": "ResourceConfig.TrainingPlanArn",
    "instance_placement_config": "ResourceConfig.InstancePlacementConfig",
    "container_arguments": "AlgorithmSpecification.ContainerArguments",
    "training_repository_access_mode": "AlgorithmSpecification.TrainingImageConfig"
    ".TrainingRepositoryAccessMode",
    "training_repository_credentials_provider_arn": "AlgorithmSpecification.TrainingImageConfig"
    ".TrainingRepositoryAuthConfig.TrainingRepositoryCredentialsProviderArn",
    "input_mode": "AlgorithmSpecification.TrainingInputMode",
    "metric_definitions": "AlgorithmSpecification.MetricDefinitions",
    "enable_sagemaker_metrics": "AlgorithmSpecification.EnableSageMakerMetricsTimeSeries",
    "output_path": "OutputDataConfig.S3OutputPath",
    "output_kms_key": "OutputDataConfig.KmsKeyId",
    "max_run": "StoppingCondition.MaxRuntimeInSeconds",
    "max_wait": "StoppingCondition.MaxWaitTimeInSeconds",
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


def constructor_arguments(
    description: Mapping[str, Any], document: JobDocument | None
) -> dict[str, Any]:
    """Return an Estimator's arguments from the description of a job that it ran.

    Missing are the source folder, of which only the job has a copy; the inputs, which are an
    argument of `fit`; and alternatives and capacity_retry, which are not part of a request.
    """
    resources = description.get("ResourceConfig", {})
    algorithm = description.get("AlgorithmSpecification", {})
    groups = [_described_group(g, document) for g in resources.get("InstanceGroups", [])]
    return {
        "entry_point": document.trainer.entry_point if document else "",
        "task": document and document.trainer.task,
        "role": description.get("RoleArn"),
        "image_uri": algorithm.get("TrainingImage"),
        "algorithm_arn": algorithm.get("AlgorithmName"),
        "instance_groups": groups,
        "instance_type": resources.get("InstanceType"),
        "instance_count": resources.get("InstanceCount"),
        "distribution": document and distribution_from(document.trainer),
        "data_service": document and document.data and _data_service_of(document.data),
        "hyperparameters": {
            name: _decoded(value)
            for name, value in description.get("HyperParameters", {}).items()
            if not name.startswith(TOOLKIT_PREFIX)
        },
        "environment": {
            name: value
            for name, value in description.get("Environment", {}).items()
            if name != TOKEN_VARIABLE
        },
        **_options(description),
    }


def _decoded(value: str) -> Any:
    """Decode a hyperparameter from JSON; SDK v3 and other clients send plain strings."""
    try:
        return json.loads(value)
    except ValueError:
        return value


def _described_group(described: Mapping[str, Any], document: JobDocument | None) -> InstanceGroup:
    name = described["InstanceGroupName"]
    group = InstanceGroup(name, described["InstanceType"], described["InstanceCount"])
    part = document.commands.get(name) if document else None
    if part is None:
        return group
    return dataclasses.replace(
        group, command=part.command, ready=part.ready, lifetime=part.lifetime
    )


def _data_service_of(part: DataPart) -> DataService:
    return DataService(
        datasets=part.datasets,
        workers_per_host=part.workers_per_host,
        prefetch_bytes=part.prefetch_bytes,
        local_workers=part.local_workers,
        checksums=part.checksums,
        metrics_port=part.metrics_port,
    )


def _options(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a job other than its machines, image and code."""
    found = {name: _at(description, place) for name, place in _PLACES.items()}
    options = {name: value for name, value in found.items() if value is not None}
    command = tuple(_at(description, "AlgorithmSpecification.ContainerEntrypoint") or ())
    spot = options.get("use_spot_instances", False)
    return {
        **options,
        **_model(description),
        "container_entry_point": () if command == CONTAINER_ENTRYPOINT else command,
        "disable_output_compression": _at(description, "OutputDataConfig.CompressionType")
        == "NONE",
        "allow_restart_from_scratch": spot and "checkpoint_s3_uri" not in options,
    }


def _at(description: Any, place: str) -> Any:
    for name in place.split("."):
        description = (description or {}).get(name)
    return description


def _model(description: Mapping[str, Any]) -> dict[str, str]:
    """Find the channel of a model_uri, identified by the content type that SDK v2 gives it."""
    for channel in description.get("InputDataConfig", ()):
        source = channel["DataSource"].get("S3DataSource", {})
        if channel.get("ContentType") == MODEL_CONTENT and channel["ChannelName"] != CODE_CHANNEL:
            return {"model_uri": source["S3Uri"], "model_channel_name": channel["ChannelName"]}
    return {}
