"""The constructor and attributes of an Estimator; derived by tests/estimator/test_job_fields.py."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from launcher.client.estimator.sdk_v2_types import (
    GroupLike,
    Metrics,
    PathLike,
    RequestPart,
    Rule,
    Tags,
)
from launcher.client.estimator.spec_attributes import SpecAttribute, SpecAttributes
from launcher.client.spec import (
    DataService,
    Distribution,
    InstanceGroup,
    MetricDefinition,
    Retry,
    Tracking,
)

class FrameworkKeywords(TypedDict, total=False):
    role: str | None
    instance_count: int | None
    instance_type: str | None
    task: str | None
    dependencies: PathLike | Iterable[PathLike] | None
    instance_groups: Sequence[GroupLike] | None
    instance_preferences: Sequence[Mapping[str, Any]] | None
    data_service: DataService | None
    environment: Mapping[str, str] | None
    secrets: Mapping[str, str] | None
    volume_size: int
    volume_kms_key: str | None
    keep_alive_period_in_seconds: int | None
    training_plan: str | None
    instance_placement_config: Mapping[str, Any] | None
    retry: Retry | None
    algorithm_arn: str | None
    container_entry_point: Sequence[str] | None
    container_arguments: Sequence[str] | None
    container_log_level: int
    training_repository_access_mode: str | None
    training_repository_credentials_provider_arn: str | None
    input_mode: str
    model_uri: str | None
    model_channel_name: str
    output_path: str | None
    output_kms_key: str | None
    disable_output_compression: bool
    code_location: str | None
    max_run: int
    use_spot_instances: bool
    max_wait: int | None
    checkpoint_s3_uri: str | None
    checkpoint_local_path: str | None
    allow_restart_from_scratch: bool
    max_retry_attempts: int | None
    base_job_name: str | None
    tags: Tags | None
    subnets: Sequence[str] | None
    security_group_ids: Sequence[str] | None
    encrypt_inter_container_traffic: bool | None
    enable_network_isolation: bool | None
    enable_session_tag_chaining: bool | None
    metric_definitions: Metrics | None
    tracking: Tracking | None
    enable_sagemaker_metrics: bool | None
    experiment_config: Mapping[str, Any] | None
    tensorboard_output_config: RequestPart | None
    debugger_hook_config: RequestPart | bool | None
    rules: Sequence[Rule] | None
    profiler_config: RequestPart | None
    profiler_rules: Sequence[Mapping[str, Any]] | None
    disable_profiler: bool | None
    enable_remote_debug: bool | None
    enable_infra_check: bool | None
    extra_request: Mapping[str, Any] | None
    sagemaker_session: object

class JobArguments(SpecAttributes):
    entry_point: SpecAttribute[str, PathLike]
    """The training script, relative to `source_dir`: `.py` or, without a distribution, `.sh`. A job
    without one runs its image's own program."""
    task: SpecAttribute[str | None, str | None]
    """Instead of a script: `module:function` in `source_dir`, which returns a Task for Launcher's
    own trainer."""
    source_dir: SpecAttribute[str | None, PathLike | None]
    """The folder that is sent, or `s3://.../NAME.tar.gz`, an archive of one; without it, the script
    alone is sent."""
    dependencies: SpecAttribute[Sequence[str], PathLike | Iterable[PathLike] | None]
    """Files and folders sent beside the source, each under its base name."""
    instance_groups: SpecAttribute[Sequence[InstanceGroup], Sequence[GroupLike] | None]
    """The groups of a heterogeneous cluster."""
    instance_type: SpecAttribute[str | None, str | None]
    """One type of instance instead of groups, such as `ml.g5.xlarge`; `local` is this machine."""
    instance_count: SpecAttribute[int | None, int | None]
    """Number of instances of `instance_type`; one if not given."""
    instance_preferences: SpecAttribute[
        Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]] | None
    ]
    """Instead of `instance_type`, up to five types that AWS tries in this order: the request's
    InstancePreferences, such as `{InstanceType: ml.p5.48xlarge, InstanceCount: 1}`."""
    distribution: SpecAttribute[Distribution | None, Distribution | Mapping[str, object] | None]
    """How training starts on several processes, one way of these: `data_parallel` or
    `model_parallel`, also with fields, MPI, or one of AWS's libraries. Without it the script runs
    once per train host."""
    data_service: SpecAttribute[DataService | None, DataService | None]
    """What the hosts of a data group serve, and how."""
    environment: SpecAttribute[Mapping[str, str], Mapping[str, str] | None]
    """Environment variables of every host."""
    secrets: SpecAttribute[Mapping[str, str], Mapping[str, str] | None]
    """More variables, whose values are secret: by name, `env` for the value in the sender's
    environment, or the ARN of a secret of AWS Secrets Manager. On AWS only ARNs are accepted."""
    volume_size: SpecAttribute[int, int]
    """GB of storage per host."""
    volume_kms_key: SpecAttribute[str | None, str | None]
    """The key that encrypts the hosts' volumes; not for types with NVMe disks."""
    keep_alive_period_in_seconds: SpecAttribute[int | None, int | None]
    """Seconds to keep the hosts for a later job (a warm pool); not with groups."""
    training_plan: SpecAttribute[str | None, str | None]
    """ARN of the training plan whose reserved capacity the job uses."""
    instance_placement_config: SpecAttribute[Mapping[str, Any] | None, Mapping[str, Any] | None]
    """How reserved capacity is used: the request's InstancePlacementConfig."""
    retry: SpecAttribute[Retry | None, Retry | None]
    """`{attempts, on, backoff}`: on which causes the job is restarted from its last checkpoint, how
    often, and after how many seconds. Without it, the job fails."""
    image_uri: SpecAttribute[str | None, str | None]
    """The training image; it takes precedence over a framework's version."""
    algorithm_arn: SpecAttribute[str | None, str | None]
    """Name or ARN of an algorithm, of the account or the Marketplace, instead of image and
    script."""
    framework: SpecAttribute[str | None, str | None]
    """The framework of `framework_version`: `pytorch` or `tensorflow`."""
    framework_version: SpecAttribute[str | None, str | None]
    """Selects AWS's image, such as `2.2`, if `image_uri` is not given."""
    py_version: SpecAttribute[str | None, str | None]
    """Python of AWS's image, such as `py311`."""
    transformers_version: SpecAttribute[str | None, str | None]
    """Selects Hugging Face's image on top of the framework's version, such as `4.56` with PyTorch
    `2.8`."""
    container_entry_point: SpecAttribute[Sequence[str], Sequence[str] | None]
    """The container's command in a job without a script; Launcher then does not start."""
    container_arguments: SpecAttribute[Sequence[str], Sequence[str] | None]
    """The arguments of that command."""
    container_log_level: SpecAttribute[int, int]
    """Log level of AWS's toolkit, in jobs that start with it."""
    training_repository_access_mode: SpecAttribute[str | None, str | None]
    """`Vpc` for an image in a private registry of the job's VPC."""
    training_repository_credentials_provider_arn: SpecAttribute[str | None, str | None]
    """ARN of the Lambda function that returns the registry's credentials."""
    input_mode: SpecAttribute[str, str]
    """How channels that set no mode of their own reach the hosts: `File`, `FastFile` or `Pipe`."""
    model_uri: SpecAttribute[str | None, str | None]
    """A model to start from; it gets a channel of its own."""
    model_channel_name: SpecAttribute[str, str]
    """The name of that channel."""
    output_path: SpecAttribute[str | None, str | None]
    """URI below which `JOB/output/` appears; the session's default bucket if not given."""
    output_kms_key: SpecAttribute[str | None, str | None]
    """The key that encrypts the output."""
    disable_output_compression: SpecAttribute[bool, bool]
    """Upload the model as files instead of model.tar.gz."""
    code_location: SpecAttribute[str | None, str | None]
    """URI below which the code is uploaded; the `output_path` if not given."""
    max_run: SpecAttribute[int, int]
    """Seconds after which the platform stops the job."""
    use_spot_instances: SpecAttribute[bool, bool]
    """Run on spare capacity, which AWS may reclaim at any time."""
    max_wait: SpecAttribute[int | None, int | None]
    """Seconds from creation to end, including waiting and interruptions; with spot instances, and
    at least `max_run`."""
    checkpoint_s3_uri: SpecAttribute[str | None, str | None]
    """Where checkpoints are stored and restored from."""
    checkpoint_local_path: SpecAttribute[str | None, str | None]
    """The folder of the checkpoints on the hosts, below `/opt/ml`; `/opt/ml/checkpoints` if not
    given."""
    allow_restart_from_scratch: SpecAttribute[bool, bool]
    """Allow spot instances and restarts without `checkpoint_s3_uri`; each then loses all work."""
    max_retry_attempts: SpecAttribute[int | None, int | None]
    """How often the platform restarts the job after an error of its own."""
    role: SpecAttribute[str | None, str | None]
    """Name or ARN of the IAM role that the job runs with; the notebook's own if not given."""
    base_job_name: SpecAttribute[str | None, str | None]
    """The beginning of the job's name; by default the first two words of the source's folder and
    the script."""
    tags: SpecAttribute[Mapping[str, str], Tags | None]
    """The job's tags, by key; in Python also AWS's list of `{Key, Value}`."""
    subnets: SpecAttribute[Sequence[str], Sequence[str] | None]
    """IDs of the VPC's subnets that the hosts join."""
    security_group_ids: SpecAttribute[Sequence[str], Sequence[str] | None]
    """IDs of the hosts' security groups in that VPC; both or none."""
    encrypt_inter_container_traffic: SpecAttribute[bool | None, bool | None]
    """Encrypt the traffic between hosts; if not given, as a file of defaults says, else no."""
    enable_session_tag_chaining: SpecAttribute[bool | None, bool | None]
    """Pass the session's tags on to the job."""
    metric_definitions: SpecAttribute[Sequence[MetricDefinition], Metrics | None]
    """Metrics read from the log: `{Name, Regex}` each."""
    tracking: SpecAttribute[Tracking | None, Tracking | None]
    """`{tensorboard, mlflow, mlflow_experiment, callback}`: where the metrics are written while the
    job is followed."""
    enable_sagemaker_metrics: SpecAttribute[bool | None, bool | None]
    """Keep the metrics' time series in SageMaker too; yes for a `framework_version` of PyTorch 1.3
    or TensorFlow 1.15, or newer, if not given."""
    experiment_config: SpecAttribute[Mapping[str, Any] | None, Mapping[str, Any] | None]
    """The experiment that the job belongs to: `{ExperimentName, TrialName,
    TrialComponentDisplayName, RunName}`."""
    tensorboard_output_config: SpecAttribute[Mapping[str, Any] | None, RequestPart | None]
    """Where TensorBoard's files are uploaded: `{S3OutputPath, LocalPath}`."""
    debugger_hook_config: SpecAttribute[Mapping[str, Any] | None, RequestPart | bool | None]
    """SageMaker Debugger's hook: the request's DebugHookConfig, by default at the job's output
    path. `{}` is the default hook, as in Python True is; False is none."""
    rules: SpecAttribute[Sequence[Mapping[str, Any]], Sequence[Rule] | None]
    """Rules of SageMaker Debugger: the request's DebugRuleConfigurations."""
    profiler_config: SpecAttribute[Mapping[str, Any] | None, RequestPart | None]
    """Settings of SageMaker's profiler: the request's ProfilerConfig."""
    profiler_rules: SpecAttribute[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]] | None]
    """Rules of the profiler: the request's ProfilerRuleConfigurations."""
    disable_profiler: SpecAttribute[bool | None, bool | None]
    """Switch SageMaker's profiler off; if not given, as a file of defaults says, else no."""
    enable_infra_check: SpecAttribute[bool | None, bool | None]
    """Check the hosts' hardware before training."""
    extra_request: SpecAttribute[Mapping[str, Any], Mapping[str, Any] | None]
    """Parts of CreateTrainingJob without a field here; they are added to the request."""
    def __init__(
        self,
        image_uri: str | None = None,
        role: str | None = None,
        instance_count: int | None = None,
        instance_type: str | None = None,
        *,
        entry_point: PathLike = "",
        task: str | None = None,
        source_dir: PathLike | None = None,
        dependencies: PathLike | Iterable[PathLike] | None = (),
        instance_groups: Sequence[GroupLike] | None = (),
        instance_preferences: Sequence[Mapping[str, Any]] | None = (),
        distribution: Distribution | Mapping[str, object] | None = None,
        data_service: DataService | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        volume_size: int = 30,
        volume_kms_key: str | None = None,
        keep_alive_period_in_seconds: int | None = None,
        training_plan: str | None = None,
        instance_placement_config: Mapping[str, Any] | None = None,
        retry: Retry | None = None,
        algorithm_arn: str | None = None,
        framework: str | None = None,
        framework_version: str | None = None,
        py_version: str | None = None,
        transformers_version: str | None = None,
        container_entry_point: Sequence[str] | None = (),
        container_arguments: Sequence[str] | None = (),
        container_log_level: int = 20,
        training_repository_access_mode: str | None = None,
        training_repository_credentials_provider_arn: str | None = None,
        input_mode: str = "File",
        model_uri: str | None = None,
        model_channel_name: str = "model",
        output_path: str | None = None,
        output_kms_key: str | None = None,
        disable_output_compression: bool = False,
        code_location: str | None = None,
        max_run: int = 86400,
        use_spot_instances: bool = False,
        max_wait: int | None = None,
        checkpoint_s3_uri: str | None = None,
        checkpoint_local_path: str | None = None,
        allow_restart_from_scratch: bool = False,
        max_retry_attempts: int | None = None,
        base_job_name: str | None = None,
        tags: Tags | None = None,
        subnets: Sequence[str] | None = (),
        security_group_ids: Sequence[str] | None = (),
        encrypt_inter_container_traffic: bool | None = None,
        enable_network_isolation: bool | None = None,
        enable_session_tag_chaining: bool | None = None,
        metric_definitions: Metrics | None = (),
        tracking: Tracking | None = None,
        enable_sagemaker_metrics: bool | None = None,
        experiment_config: Mapping[str, Any] | None = None,
        tensorboard_output_config: RequestPart | None = None,
        debugger_hook_config: RequestPart | bool | None = None,
        rules: Sequence[Rule] | None = (),
        profiler_config: RequestPart | None = None,
        profiler_rules: Sequence[Mapping[str, Any]] | None = (),
        disable_profiler: bool | None = None,
        enable_remote_debug: bool | None = None,
        enable_infra_check: bool | None = None,
        extra_request: Mapping[str, Any] | None = None,
        sagemaker_session: object = None,
    ) -> None:
        """Describe a job; nothing is sent.

        Args:
            entry_point: The training script, relative to `source_dir`: `.py` or, without a
                distribution, `.sh`. A job without one runs its image's own program.
            task: Instead of a script: `module:function` in `source_dir`, which returns a Task for
                Launcher's own trainer.
            source_dir: The folder that is sent, or `s3://.../NAME.tar.gz`, an archive of one;
                without it, the script alone is sent.
            dependencies: Files and folders sent beside the source, each under its base name.
            instance_groups: The groups of a heterogeneous cluster.
            instance_type: One type of instance instead of groups, such as `ml.g5.xlarge`; `local`
                is this machine.
            instance_count: Number of instances of `instance_type`; one if not given.
            instance_preferences: Instead of `instance_type`, up to five types that AWS tries in
                this order: the request's InstancePreferences, such as `{InstanceType:
                ml.p5.48xlarge, InstanceCount: 1}`.
            distribution: How training starts on several processes, one way of these:
                `data_parallel` or `model_parallel`, also with fields, MPI, or one of AWS's
                libraries. Without it the script runs once per train host.
            data_service: What the hosts of a data group serve, and how.
            hyperparameters: Command-line arguments of the script, by name, formatted as by
                SageMaker's toolkit; they keep their types.
            environment: Environment variables of every host.
            secrets: More variables, whose values are secret: by name, `env` for the value in the
                sender's environment, or the ARN of a secret of AWS Secrets Manager. On AWS only
                ARNs are accepted.
            volume_size: GB of storage per host.
            volume_kms_key: The key that encrypts the hosts' volumes; not for types with NVMe disks.
            keep_alive_period_in_seconds: Seconds to keep the hosts for a later job (a warm pool);
                not with groups.
            training_plan: ARN of the training plan whose reserved capacity the job uses.
            instance_placement_config: How reserved capacity is used: the request's
                InstancePlacementConfig.
            retry: `{attempts, on, backoff}`: on which causes the job is restarted from its last
                checkpoint, how often, and after how many seconds. Without it, the job fails.
            image_uri: The training image; it takes precedence over a framework's version.
            algorithm_arn: Name or ARN of an algorithm, of the account or the Marketplace, instead
                of image and script.
            framework: The framework of `framework_version`: `pytorch` or `tensorflow`.
            framework_version: Selects AWS's image, such as `2.2`, if `image_uri` is not given.
            py_version: Python of AWS's image, such as `py311`.
            transformers_version: Selects Hugging Face's image on top of the framework's version,
                such as `4.56` with PyTorch `2.8`.
            container_entry_point: The container's command in a job without a script; Launcher then
                does not start.
            container_arguments: The arguments of that command.
            container_log_level: Log level of AWS's toolkit, in jobs that start with it.
            training_repository_access_mode: `Vpc` for an image in a private registry of the job's
                VPC.
            training_repository_credentials_provider_arn: ARN of the Lambda function that returns
                the registry's credentials.
            input_mode: How channels that set no mode of their own reach the hosts: `File`,
                `FastFile` or `Pipe`.
            model_uri: A model to start from; it gets a channel of its own.
            model_channel_name: The name of that channel.
            output_path: URI below which `JOB/output/` appears; the session's default bucket if not
                given.
            output_kms_key: The key that encrypts the output.
            disable_output_compression: Upload the model as files instead of model.tar.gz.
            code_location: URI below which the code is uploaded; the `output_path` if not given.
            max_run: Seconds after which the platform stops the job.
            use_spot_instances: Run on spare capacity, which AWS may reclaim at any time.
            max_wait: Seconds from creation to end, including waiting and interruptions; with spot
                instances, and at least `max_run`.
            checkpoint_s3_uri: Where checkpoints are stored and restored from.
            checkpoint_local_path: The folder of the checkpoints on the hosts, below `/opt/ml`;
                `/opt/ml/checkpoints` if not given.
            allow_restart_from_scratch: Allow spot instances and restarts without
                `checkpoint_s3_uri`; each then loses all work.
            max_retry_attempts: How often the platform restarts the job after an error of its own.
            role: Name or ARN of the IAM role that the job runs with; the notebook's own if not
                given.
            base_job_name: The beginning of the job's name; by default the first two words of the
                source's folder and the script.
            tags: The job's tags, by key; in Python also AWS's list of `{Key, Value}`.
            subnets: IDs of the VPC's subnets that the hosts join.
            security_group_ids: IDs of the hosts' security groups in that VPC; both or none.
            encrypt_inter_container_traffic: Encrypt the traffic between hosts; if not given, as a
                file of defaults says, else no.
            enable_network_isolation: Cut the containers off from the network outside the job; if
                not given, as a file of defaults says, else no.
            enable_session_tag_chaining: Pass the session's tags on to the job.
            metric_definitions: Metrics read from the log: `{Name, Regex}` each.
            tracking: `{tensorboard, mlflow, mlflow_experiment, callback}`: where the metrics are
                written while the job is followed.
            enable_sagemaker_metrics: Keep the metrics' time series in SageMaker too; yes for a
                `framework_version` of PyTorch 1.3 or TensorFlow 1.15, or newer, if not given.
            experiment_config: The experiment that the job belongs to: `{ExperimentName, TrialName,
                TrialComponentDisplayName, RunName}`.
            tensorboard_output_config: Where TensorBoard's files are uploaded: `{S3OutputPath,
                LocalPath}`.
            debugger_hook_config: SageMaker Debugger's hook: the request's DebugHookConfig, by
                default at the job's output path. `{}` is the default hook, as in Python True is;
                False is none.
            rules: Rules of SageMaker Debugger: the request's DebugRuleConfigurations.
            profiler_config: Settings of SageMaker's profiler: the request's ProfilerConfig.
            profiler_rules: Rules of the profiler: the request's ProfilerRuleConfigurations.
            disable_profiler: Switch SageMaker's profiler off; if not given, as a file of defaults
                says, else no.
            enable_remote_debug: Allow a shell in the containers through AWS Systems Manager.
            enable_infra_check: Check the hosts' hardware before training.
            extra_request: Parts of CreateTrainingJob without a field here; they are added to the
                request.
            sagemaker_session: A LocalSession, an AwsSession, or a Session of `sagemaker`; AWS if
                not given.

        Raises:
            TypeError: An argument is unknown; a similar one is suggested.
            SpecError: An argument of SDK v2 that Launcher does not accept, or a wrong value.
        """
