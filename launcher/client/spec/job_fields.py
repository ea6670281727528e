"""The fields of a job, each declared once: its type, default, path in the request, and meaning.

All else derives from here: the request and its way back, the coercion of values, the descriptions
in the JSON schema, the arguments and attributes of an Estimator, and the tables of docs/jobs.md.
A field that is a plain copy into the request needs its declaration and no code.

Names are those of SageMaker SDK v2's Estimator. Source of the paths: the CreateTrainingJob page of
the SageMaker API reference.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any, TypeVar, cast

from launcher.client.spec.distributions.base import Distribution
from launcher.client.spec.job_parts import (
    DataService,
    FileSystemInput,
    InstanceGroup,
    MetricDefinition,
    Retry,
    Tracking,
    TrainingInput,
)

Value = TypeVar("Value")

_IMAGE_CONFIG = "AlgorithmSpecification.TrainingImageConfig"
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def job_field(default: Value, doc: str, path: str | None = None) -> Value:
    """Declare a field of a job.

    doc: the meaning, in Markdown with links relative to docs/.
    path: in the CreateTrainingJob request; None for a field that takes effect elsewhere.
    """
    declared = {"path": path, "doc": doc}
    if isinstance(default, Mapping):
        return cast(Value, field(default_factory=dict, metadata=declared))
    return field(default=default, metadata=declared)


def field_doc(part: Field[Any]) -> str:
    """Return the meaning of a field of a job as plain text."""
    return _LINK.sub(r"\1", part.metadata["doc"])


@dataclass(frozen=True, kw_only=True)
class JobFields:
    """The values of a JobSpec, in the order of a job file and of the request."""

    # Code and machines.
    entry_point: str = job_field(
        "",
        "The training script, relative to `source_dir`: `.py` or, without a distribution, `.sh`. "
        "A job without one runs [its image's own program](#a-job-without-a-script).",
    )
    task: str | None = job_field(
        None,
        "Instead of a script: `module:function` in `source_dir`, which returns [a "
        "Task](reference/distributions.md#a-task-instead-of-a-script) for Launcher's own trainer.",
    )
    source_dir: str | None = job_field(
        None,
        "The folder that is sent, or `s3://.../NAME.tar.gz`, an archive of one; without it, the "
        "script alone is sent.",
    )
    dependencies: Sequence[str] = job_field(
        (), "Files and folders sent beside the source, each under its base name."
    )
    instance_groups: Sequence[InstanceGroup] = job_field(
        (),
        "The [groups](#groups-data-service-and-inputs) of a heterogeneous cluster.",
        "ResourceConfig.InstanceGroups",
    )
    instance_type: str | None = job_field(
        None,
        "One type of instance instead of groups, such as `ml.g5.xlarge`; `local` is this machine.",
        "ResourceConfig.InstanceType",
    )
    instance_count: int | None = job_field(
        None,
        "Number of instances of `instance_type`; one if not given.",
        "ResourceConfig.InstanceCount",
    )
    instance_preferences: Sequence[Mapping[str, Any]] = job_field(
        (),
        "Instead of `instance_type`, up to five types that AWS tries in this order: the request's "
        "InstancePreferences, such as `{InstanceType: ml.p5.48xlarge, InstanceCount: 1}`.",
        "ResourceConfig.InstancePreferences",
    )
    distribution: Distribution | None = job_field(
        None,
        "How training starts on several processes, [one way of "
        "these](reference/distributions.md#distributions): `data_parallel` or `model_parallel`, "
        "also with [fields](reference/distributions.md#replicas-and-stages), MPI, or one of AWS's "
        "libraries. Without it the script runs once per train host.",
    )
    data_service: DataService | None = job_field(
        None, "What the hosts of [a data group](#groups-data-service-and-inputs) serve, and how."
    )
    hyperparameters: Mapping[str, Any] = job_field(
        {},
        "Command-line arguments of the script, by name, formatted as by SageMaker's toolkit; they "
        "keep their types.",
        "HyperParameters",
    )
    environment: Mapping[str, str] = job_field(
        {}, "Environment variables of every host.", "Environment"
    )
    secrets: Mapping[str, str] = job_field(
        {},
        "More variables, [whose values are secret](#secrets): by name, `env` for the value in the "
        "sender's environment, or the ARN of a secret of AWS Secrets Manager. On AWS only ARNs "
        "are accepted.",
    )
    volume_size: int = job_field(30, "GB of storage per host.", "ResourceConfig.VolumeSizeInGB")
    volume_kms_key: str | None = job_field(
        None,
        "The key that encrypts the hosts' volumes; not for types with NVMe disks.",
        "ResourceConfig.VolumeKmsKeyId",
    )
    keep_alive_period_in_seconds: int | None = job_field(
        None,
        "Seconds to keep the hosts for a later job (a warm pool); not with groups.",
        "ResourceConfig.KeepAlivePeriodInSeconds",
    )
    training_plan: str | None = job_field(
        None,
        "ARN of the training plan whose reserved capacity the job uses.",
        "ResourceConfig.TrainingPlanArn",
    )
    instance_placement_config: Mapping[str, Any] | None = job_field(
        None,
        "How reserved capacity is used: the request's InstancePlacementConfig.",
        "ResourceConfig.InstancePlacementConfig",
    )
    retry: Retry | None = job_field(
        None,
        "`{attempts, on, backoff}`: [on which causes](#retries) the job is restarted from its last "
        "checkpoint, how often, and after how many seconds. Without it, the job fails.",
    )

    # The image. If nothing names one, the session chooses.
    image_uri: str | None = job_field(
        None,
        "The training image; it takes precedence over a framework's version.",
        "AlgorithmSpecification.TrainingImage",
    )
    algorithm_arn: str | None = job_field(
        None,
        "Name or ARN of an algorithm, of the account or the Marketplace, instead of image and "
        "script.",
        "AlgorithmSpecification.AlgorithmName",
    )
    framework: str | None = job_field(
        None, "The framework of `framework_version`: `pytorch` or `tensorflow`."
    )
    framework_version: str | None = job_field(
        None, "Selects AWS's image, such as `2.2`, if `image_uri` is not given."
    )
    py_version: str | None = job_field(None, "Python of AWS's image, such as `py311`.")
    transformers_version: str | None = job_field(
        None,
        "Selects Hugging Face's image on top of the framework's version, such as `4.56` with "
        "PyTorch `2.8`.",
    )
    container_entry_point: Sequence[str] = job_field(
        (),
        "The container's command in [a job without a script](#a-job-without-a-script); Launcher "
        "then does not start.",
        "AlgorithmSpecification.ContainerEntrypoint",
    )
    container_arguments: Sequence[str] = job_field(
        (), "The arguments of that command.", "AlgorithmSpecification.ContainerArguments"
    )
    container_log_level: int = job_field(
        20, "Log level of AWS's toolkit, in jobs that start with it."
    )
    training_repository_access_mode: str | None = job_field(
        None,
        "`Vpc` for an image in a private registry of the job's VPC.",
        f"{_IMAGE_CONFIG}.TrainingRepositoryAccessMode",
    )
    training_repository_credentials_provider_arn: str | None = job_field(
        None,
        "ARN of the Lambda function that returns the registry's credentials.",
        f"{_IMAGE_CONFIG}.TrainingRepositoryAuthConfig.TrainingRepositoryCredentialsProviderArn",
    )

    # Inputs and outputs.
    inputs: Mapping[str, TrainingInput | FileSystemInput] = job_field(
        {}, "[Channels](#groups-data-service-and-inputs) by name.", "InputDataConfig"
    )
    input_mode: str = job_field(
        "File",
        "How channels that set no mode of their own reach the hosts: `File`, `FastFile` or `Pipe`.",
        "AlgorithmSpecification.TrainingInputMode",
    )
    model_uri: str | None = job_field(None, "A model to start from; it gets a channel of its own.")
    model_channel_name: str = job_field("model", "The name of that channel.")
    output_path: str | None = job_field(
        None,
        "URI below which `JOB/output/` appears; the session's default bucket if not given.",
        "OutputDataConfig.S3OutputPath",
    )
    output_kms_key: str | None = job_field(
        None, "The key that encrypts the output.", "OutputDataConfig.KmsKeyId"
    )
    disable_output_compression: bool = job_field(
        False,
        "Upload the model as files instead of model.tar.gz.",
        "OutputDataConfig.CompressionType",
    )
    code_location: str | None = job_field(
        None, "URI below which the code is uploaded; the `output_path` if not given."
    )

    # Time limits and interruptions.
    max_run: int = job_field(
        24 * 60 * 60,
        "Seconds after which the platform stops the job.",
        "StoppingCondition.MaxRuntimeInSeconds",
    )
    use_spot_instances: bool = job_field(
        False,
        "Run on spare capacity, which AWS may reclaim at any time.",
        "EnableManagedSpotTraining",
    )
    max_wait: int | None = job_field(
        None,
        "Seconds from creation to end, including waiting and interruptions; with spot instances, "
        "and at least `max_run`.",
        "StoppingCondition.MaxWaitTimeInSeconds",
    )
    checkpoint_s3_uri: str | None = job_field(
        None, "Where checkpoints are stored and restored from.", "CheckpointConfig.S3Uri"
    )
    checkpoint_local_path: str | None = job_field(
        None,
        "The folder of the checkpoints on the hosts, below `/opt/ml`; `/opt/ml/checkpoints` if "
        "not given.",
        "CheckpointConfig.LocalPath",
    )
    allow_restart_from_scratch: bool = job_field(
        False,
        "Allow spot instances and restarts without `checkpoint_s3_uri`; each then loses all work.",
    )
    max_retry_attempts: int | None = job_field(
        None,
        "How often the platform restarts the job after an error of its own.",
        "RetryStrategy.MaximumRetryAttempts",
    )

    # Identity and network.
    role: str | None = job_field(
        None,
        "Name or ARN of the IAM role that the job runs with; the notebook's own if not given.",
        "RoleArn",
    )
    base_job_name: str | None = job_field(
        None,
        "The beginning of the job's name; by default the first two words of the source's folder "
        "and the script.",
    )
    tags: Mapping[str, str] = job_field(
        {}, "The job's tags, by key; in Python also AWS's list of `{Key, Value}`.", "Tags"
    )
    subnets: Sequence[str] = job_field(
        (), "IDs of the VPC's subnets that the hosts join.", "VpcConfig.Subnets"
    )
    security_group_ids: Sequence[str] = job_field(
        (),
        "IDs of the hosts' security groups in that VPC; both or none.",
        "VpcConfig.SecurityGroupIds",
    )
    encrypt_inter_container_traffic: bool | None = job_field(
        None,
        "Encrypt the traffic between hosts; if not given, as [a file of "
        "defaults](#defaults-from-files) says, else no.",
        "EnableInterContainerTrafficEncryption",
    )
    enable_network_isolation: bool | None = job_field(
        None,
        "Cut the containers off from the network outside the job; if not given, as [a file of "
        "defaults](#defaults-from-files) says, else no.",
        "EnableNetworkIsolation",
    )
    enable_session_tag_chaining: bool | None = job_field(
        None,
        "Pass the session's tags on to the job.",
        "SessionChainingConfig.EnableSessionTagChaining",
    )

    # Observation; sent only if set.
    metric_definitions: Sequence[MetricDefinition] = job_field(
        (),
        "[Metrics](metrics.md) read from the log: `{Name, Regex}` each.",
        "AlgorithmSpecification.MetricDefinitions",
    )
    tracking: Tracking | None = job_field(
        None,
        "`{tensorboard, mlflow, mlflow_experiment, callback}`: where the metrics are [written "
        "while the job is followed](metrics.md#tracking).",
    )
    enable_sagemaker_metrics: bool | None = job_field(
        None,
        "Keep the metrics' time series in SageMaker too; yes for a `framework_version` of PyTorch "
        "1.3 or TensorFlow 1.15, or newer, if not given.",
        "AlgorithmSpecification.EnableSageMakerMetricsTimeSeries",
    )
    experiment_config: Mapping[str, Any] | None = job_field(
        None,
        "The experiment that the job belongs to: `{ExperimentName, TrialName, "
        "TrialComponentDisplayName, RunName}`.",
        "ExperimentConfig",
    )
    tensorboard_output_config: Mapping[str, Any] | None = job_field(
        None,
        "Where TensorBoard's files are uploaded: `{S3OutputPath, LocalPath}`.",
        "TensorBoardOutputConfig",
    )
    debugger_hook_config: Mapping[str, Any] | None = job_field(
        None,
        "SageMaker Debugger's hook: the request's DebugHookConfig, by default at the job's output "
        "path. `{}` is the default hook, as in Python True is; False is none.",
        "DebugHookConfig",
    )
    rules: Sequence[Mapping[str, Any]] = job_field(
        (),
        "Rules of SageMaker Debugger: the request's DebugRuleConfigurations.",
        "DebugRuleConfigurations",
    )
    profiler_config: Mapping[str, Any] | None = job_field(
        None, "Settings of SageMaker's profiler: the request's ProfilerConfig.", "ProfilerConfig"
    )
    profiler_rules: Sequence[Mapping[str, Any]] = job_field(
        (),
        "Rules of the profiler: the request's ProfilerRuleConfigurations.",
        "ProfilerRuleConfigurations",
    )
    disable_profiler: bool | None = job_field(
        None,
        "Switch SageMaker's profiler off; if not given, as [a file of "
        "defaults](#defaults-from-files) says, else no.",
    )
    enable_remote_debug: bool | None = job_field(
        None,
        "Allow a shell in the containers through AWS Systems Manager.",
        "RemoteDebugConfig.EnableRemoteDebug",
    )
    enable_infra_check: bool | None = job_field(
        None, "Check the hosts' hardware before training.", "InfraCheckConfig.EnableInfraCheck"
    )
    extra_request: Mapping[str, Any] = job_field(
        {},
        "[Parts of CreateTrainingJob](#other-fields-of-the-request) without a field here; they "
        "are added to the request.",
    )


#: What AWS chooses for a serverless job, which has neither code of its own nor machines.
CHOSEN_FIELDS = frozenset(
    part.name
    for part in fields(JobFields)
    if str(part.metadata["path"]).partition(".")[0]
    in ("None", "AlgorithmSpecification", "ResourceConfig", "StoppingCondition")
) - {"base_job_name", "extra_request", "model_uri", "model_channel_name"}
