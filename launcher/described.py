"""The options of a job from the description of it: DescribeTrainingJob's words, as arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.contract import CODE_CHANNEL, CONTAINER_ENTRYPOINT

_MODEL_CONTENT = "application/x-sagemaker-model"
#: Where in a description each option stands.
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


def described_options(description: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that a job was created with, apart from its machines, image and code."""
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
    """The channel of a model_uri is known by what SDK v2 says of its content."""
    for channel in description.get("InputDataConfig", ()):
        source = channel["DataSource"].get("S3DataSource", {})
        if channel.get("ContentType") == _MODEL_CONTENT and channel["ChannelName"] != CODE_CHANNEL:
            return {"model_uri": source["S3Uri"], "model_channel_name": channel["ChannelName"]}
    return {}
